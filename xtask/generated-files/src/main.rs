//! The program behind `cargo xtask codegen`.

fn main() -> anyhow::Result<()> {
    generated_files::write_all()
}
