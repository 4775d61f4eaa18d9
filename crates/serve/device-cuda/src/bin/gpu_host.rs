//! Program that runs a GPU for the process that started it.

fn main() -> std::process::ExitCode {
    device_cuda::host::serve()
}
