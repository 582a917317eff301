//! The committed generated files match the code.

use std::fs;

use generated_files::generated_files;
use toolbox::checkout::repository_root;

#[test]
fn generated_files_are_fresh() {
    for file in generated_files().expect("files can be generated") {
        let current = fs::read_to_string(repository_root().join(&file.path)).unwrap_or_default();
        assert!(
            current == file.content,
            "{} is stale: run `cargo xtask codegen` and commit the result",
            file.path
        );
    }
}
