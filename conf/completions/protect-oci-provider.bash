# SPDX-License-Identifier: Apache-2.0
# bash completion of protect-oci-provider. Its options are those that --help names.
_protect_oci_provider() {
	local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} words= word value= verb=

	COMPREPLY=()
	# "--name=x" is three words to bash.
	if [[ $current == = ]]; then current=; elif [[ $option == = ]]; then option=${COMP_WORDS[COMP_CWORD-2]}; fi
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in
		-*) value=$word ;;
		=) ;;
		*) [[ -n $value ]] || verb=$word; value= ;;
		esac
	done
	case $option in
	--format) words="squashfs erofs tar directory" ;;
	--progress) words="json auto none" ;;
	--blobs) mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames 2>/dev/null; return 0 ;;
	--output|--auth-file|--ca|--cert|--key|--mkfs-erofs|:)
		mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames 2>/dev/null; return 0 ;;
	--help|--version) return 0 ;;
	--*) return 0 ;; # a number, an address, a digest
	*)
		if [[ $current == -* ]]; then
			words=$("${COMP_WORDS[0]}" --help 2>/dev/null | sed -n '/^  --/p' | grep -oE -- '(^ *|, )--[a-z-]+' | tr -d ' ,')
		elif [[ -z $verb ]]; then
			words="pull tags inspect oci: oci-archive: docker-archive: archive:"
		elif [[ $verb == pull || $verb == inspect ]]; then
			words="oci: oci-archive: docker-archive: archive:"
		fi ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
	[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *: ]] || compopt -o nospace 2>/dev/null
	return 0
}
complete -F _protect_oci_provider protect-oci-provider
