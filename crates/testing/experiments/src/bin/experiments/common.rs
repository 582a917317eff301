//! What the experiments share.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use placement::Policy;
use simulator::policies;

/// One policy for all experiments. Only jobs differ: in X2 none saves its state, so none is evicted.
pub fn the_policy() -> Result<Policy, Box<dyn Error>> {
    Ok(policies::preset("full").ok_or("no such policy")?)
}

pub fn figure(id: &str, percent: f64, reference: &str) {
    println!("figure {id} {percent:.2} percent  ({reference})");
}

pub fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    let file = File::open(path).map_err(|error| format!("opening {}: {error}", path.display()))?;
    let mut text = String::new();
    ruzstd::decoding::StreamingDecoder::new(file)?.read_to_string(&mut text)?;
    Ok(text)
}
