# SPDX-License-Identifier: Apache-2.0
# fish completion of protect-oci-provider. Its options are those that --help names.
function __protect_oci_provider_options
	protect-oci-provider --help 2>/dev/null | string match -r '^  --.*' | string match -ar -- '(?<=^  |, )--[a-z-]+'
end
complete -c protect-oci-provider -n '__fish_use_subcommand' -a 'pull tags inspect'
complete -c protect-oci-provider -n 'string match -q -- "-*" (commandline -ct)' -a '(__protect_oci_provider_options)'
complete -c protect-oci-provider -l format -x -a 'squashfs erofs tar directory'
complete -c protect-oci-provider -l progress -x -a 'json auto none'
