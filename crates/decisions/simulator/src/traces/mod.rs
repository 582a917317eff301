//! Public traces: text in, workload out. The caller unpacks and reads the file. Our own format is the crate `trace-format`.

pub mod openb;
pub mod philly;
pub mod spot;

pub use trace_format::Error;

/// The lines of a table without quotes, after its header, with their numbers and as many fields as the header has.
fn rows<'a>(
    text: &'a str,
    header: &'a [&'a str],
) -> Result<impl Iterator<Item = Result<(usize, Vec<&'a str>), Error>>, Error> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_start_matches('\u{feff}');
    if !first.split(',').map(str::trim).eq(header.iter().copied()) {
        return Err(Error { line: 1, message: format!("the columns must be {}", header.join(",")) });
    }
    Ok(lines.enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(index, line)| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let line = index + 2;
        if fields.len() == header.len() {
            Ok((line, fields))
        } else {
            let message = format!("{} fields instead of {}", fields.len(), header.len());
            Err(Error { line, message })
        }
    }))
}

/// A field that is a number.
fn number<N: std::str::FromStr>(line: usize, column: &str, text: &str) -> Result<N, Error> {
    text.parse()
        .map_err(|_| Error { line, message: format!("{column} is `{text}`, which is not such a number") })
}
