#compdef protect protect-ctl
# SPDX-License-Identifier: Apache-2.0
# zsh completion of protect. What could stand next is asked of the command itself.
_protect() {
	local line word what
	local -a items

	while IFS= read -r line; do
		if [[ $line == :file ]]; then
			_files
			continue
		fi
		word=${line%%$'\t'*}
		what=${line#*$'\t'}
		items+=("${word//:/\\:}${what:+:$what}")
	done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	(( $#items )) && _describe -V protect items
}
_protect "$@"
