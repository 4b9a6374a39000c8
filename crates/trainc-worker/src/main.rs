//! Entry point of `trainc-worker`.

fn main() -> std::process::ExitCode {
    trainc_worker::cli::main()
}
