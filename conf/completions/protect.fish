# SPDX-License-Identifier: Apache-2.0
# fish completion of protect. What could stand next is asked of the command itself.
function __protect_complete
	set -l tokens (commandline -opc) (commandline -ct)
	for line in ($tokens[1] __complete -- $tokens[2..-1] 2>/dev/null)
		if test "$line" = :file
			__fish_complete_path (commandline -ct)
		else
			echo $line
		end
	end
end
complete -c protect -f -a '(__protect_complete)'
complete -c protect-ctl -f -a '(__protect_complete)'
