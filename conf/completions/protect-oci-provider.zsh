#compdef protect-oci-provider
# SPDX-License-Identifier: Apache-2.0
# zsh completion of protect-oci-provider: the options that --help names, and files.
_gnu_generic "$@"
