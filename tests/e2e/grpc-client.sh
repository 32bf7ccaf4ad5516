#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client that shares nothing with us but the .proto files (Python, grpcio) creates a zone, watches it, runs commands, destroys it.
. "$SRC_DIR/tests/e2e/lib.bash"
/usr/bin/python3 -c 'import grpc, grpc_tools' 2>/dev/null || skip "grpcio is missing (Debian: python3-grpcio python3-grpc-tools)"
registry_start
config_write
daemon_start || exit

mkdir "$work/py"
cd "$SRC_DIR/proto" && /usr/bin/python3 -m grpc_tools.protoc -I. -I/usr/include --python_out="$work/py" --grpc_python_out="$work/py" \
	protect/control/v1/common.proto protect/control/v1/control.proto || exit 1
PYTHONPATH=$work/py timeout 300 /usr/bin/python3 "$SRC_DIR/tests/e2e/clients/control.py" "unix:$socket" "$registry/busybox:latest" || failures=$((failures + 1))
works "no virtual machine is left" wait_until 5 eval '[ -z "$(machines)" ]'
