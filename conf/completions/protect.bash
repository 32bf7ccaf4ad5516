# SPDX-License-Identifier: Apache-2.0
# bash completion of protect. What could stand next is asked of the command itself.
_protect() {
	local words=("${COMP_WORDS[@]:1:COMP_CWORD}") line word kept=() current=${COMP_WORDS[COMP_CWORD]}

	COMPREPLY=()
	# "--name=x" is three words to bash and one to us.
	for word in "${words[@]}"; do
		if [[ ${#kept[@]} -gt 0 && ( $word == = || ${kept[-1]} == *= ) ]]; then kept[-1]+=$word; else kept+=("$word"); fi
	done
	[[ $current != = ]] || current=
	while IFS= read -r line; do
		if [[ $line == :file ]]; then
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
			compopt -o filenames 2>/dev/null
		else
			word=${line%%$'\t'*}
			[[ $word != --*=* ]] || word=${word#*=}
			COMPREPLY+=("$word")
		fi
	done < <("${COMP_WORDS[0]}" __complete -- "${kept[@]}" 2>/dev/null)
	# Names with colons: readline replaces only what stands behind the last one.
	declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$current"
	return 0
}
complete -F _protect protect protect-ctl
