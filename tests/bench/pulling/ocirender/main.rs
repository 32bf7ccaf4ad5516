// SPDX-License-Identifier: Apache-2.0
//! render LAYOUT OUT.squashfs MKSQUASHFS: the ocirender crate on an OCI layout with one image.
use std::{env, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [layout, out, mksquashfs] = args.as_slice() else {
        eprintln!("usage: render LAYOUT OUT.squashfs MKSQUASHFS");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let done = runtime.block_on(ocirender::convert_mksquashfs(Path::new(layout), Path::new(out), Some(Path::new(mksquashfs))));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("render: {e}");
            ExitCode::FAILURE
        }
    }
}
