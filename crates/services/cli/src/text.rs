//! Makes foreign text safe for a terminal.

/// Text without characters that could control a terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|letter| if is_unsafe(letter) { '\u{fffd}' } else { letter }).collect()
}

/// The same for text of several lines.
pub fn clean_lines(text: &str) -> String {
    text.chars().map(|letter| if is_unsafe(letter) && letter != '\n' { '\u{fffd}' } else { letter }).collect()
}

/// Control characters, and those that change the direction of text.
fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
