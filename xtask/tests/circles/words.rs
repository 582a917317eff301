//! Rust source as a list of words, without comments, layout and literals.

/// One word of a source. Of literals only strings are kept, because attributes name functions in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    Name(String),
    Text(String),
    /// `::`
    Path,
    Mark(char),
}

/// The words of this source, in order.
pub fn words(source: &str) -> Vec<Word> {
    let mut reader = Reader { rest: source, words: Vec::new() };
    while let Some(first) = reader.rest.chars().next() {
        reader.take_word(first);
    }
    reader.words
}

struct Reader<'a> {
    rest: &'a str,
    words: Vec<Word>,
}

impl Reader<'_> {
    fn take_word(&mut self, first: char) {
        let rest = self.rest;
        if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if rest.starts_with("//") {
            self.skip(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.skip(length_of_block_comment(rest));
        } else if let Some(raw) = raw_string(rest) {
            self.skip(raw);
        } else if rest.starts_with("b'") {
            self.skip(1);
        } else if first == '"' || rest.starts_with("b\"") || rest.starts_with("c\"") {
            self.take_string();
        } else if first == '\'' {
            self.skip(length_of_quoted(rest));
        } else if first.is_ascii_digit() {
            self.skip(length_while(rest, is_of_name));
        } else if is_of_name(first) {
            let name = rest.strip_prefix("r#").unwrap_or(rest);
            let length = length_while(name, is_of_name);
            self.words.push(Word::Name(name[..length].to_owned()));
            self.skip(rest.len() - name.len() + length);
        } else if rest.starts_with("::") {
            self.words.push(Word::Path);
            self.skip(2);
        } else {
            self.words.push(Word::Mark(first));
            self.skip(first.len_utf8());
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn take_string(&mut self) {
        let open = self.rest.find('"').expect("the caller saw it") + 1;
        let body = &self.rest[open..];
        let end = end_of_escaped(body, '"');
        self.words.push(Word::Text(body[..end].to_owned()));
        self.skip((open + end + 1).min(self.rest.len()));
    }
}

fn is_of_name(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

fn length_while(text: &str, is_part: fn(char) -> bool) -> usize {
    text.find(|it| !is_part(it)).unwrap_or(text.len())
}

fn length_of_block_comment(text: &str) -> usize {
    let mut depth = 0;
    for (at, _) in text.char_indices() {
        if text[at..].starts_with("/*") {
            depth += 1;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            if depth == 0 {
                return at + 2;
            }
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#` and the like, if the text begins with one.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = length_while(body, |it| it == '#');
    let inside = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inside.find(&close).map_or(inside.len(), |at| at + close.len());
    Some(text.len() - inside.len() + end)
}

/// The length of a character such as `'a'`, or of a lifetime such as `'static`.
fn length_of_quoted(text: &str) -> usize {
    let body = &text[1..];
    let mut characters = body.chars();
    let first = characters.next().map_or(0, char::len_utf8);
    if body.starts_with('\\') {
        return (end_of_escaped(body, '\'') + 2).min(text.len());
    }
    if characters.next() == Some('\'') {
        return first + 2;
    }
    1 + length_while(body, is_of_name)
}

/// Where the literal ends whose inside begins here.
fn end_of_escaped(body: &str, close: char) -> usize {
    let mut escaped = false;
    for (at, it) in body.char_indices() {
        match it {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if it == close => return at,
            _ => {}
        }
    }
    body.len()
}
