//! Bounds the size of a page, whatever its items contain.

use std::io;

use serde::Serialize;

/// The most bytes of a page's items, as JSON: 50 KB with 1 KB for the rest. A larger page gets fewer items than
/// requested, and a `continue`.
const ITEMS_BYTES_MAX: usize = 49 * 1_000;

/// Keeps as many of the items as fit on a page, at least one.
pub fn fitting<T: Serialize>(mut items: Vec<T>) -> Vec<T> {
    let mut total = 0;
    let fits = |item: &T| {
        // One for the comma.
        total += length(item) + 1;
        total <= ITEMS_BYTES_MAX
    };
    let count = items.iter().map(fits).take_while(|fits| *fits).count();
    items.truncate(count.max(1));
    items
}

fn length(item: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, item).expect("messages of the API are JSON");
    count.0
}

#[cfg(test)]
mod tests {
    use super::{ITEMS_BYTES_MAX, fitting};

    #[test]
    fn a_page_keeps_within_its_bytes_and_always_goes_on() {
        let items = |length: usize| vec!["x".repeat(length); 100];
        assert_eq!(fitting(items(10)).len(), 100);
        let kept = fitting(items(1_000));
        assert_eq!(kept.len(), 48);
        assert!(serde_json::to_string(&kept).expect("JSON").len() <= ITEMS_BYTES_MAX + 2);
        assert_eq!(fitting(items(100_000)).len(), 1, "else a list could not go on");
        assert_eq!(fitting(Vec::<String>::new()).len(), 0);
    }
}
