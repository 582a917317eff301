//! Reads prices from price sheets. Pure. If any part of a sheet cannot be read, the whole sheet is left out and
//! reported: half a sheet would price nodes by entries that were meant for others.

use std::collections::BTreeMap;

use api_types::{PriceEntry, PriceSheet};
use costing::{HourlyPrice, Moment, Price, PriceUnit};
use jiff::Timestamp;
use kube::runtime::watcher::Event;

/// All sheets, from the watch.
#[derive(Debug, Default)]
pub struct Sheets {
    known: BTreeMap<String, PriceSheet>,
    /// The incomplete list; it replaces `known` when it is complete.
    listing: BTreeMap<String, PriceSheet>,
    /// How often they changed; 0 before they are known.
    version: u64,
}

impl Sheets {
    /// Takes in a watch event.
    pub fn apply(&mut self, event: Event<PriceSheet>) {
        match event {
            Event::Init => return self.listing.clear(),
            Event::InitApply(sheet) => return drop(self.listing.insert(name(&sheet), sheet)),
            Event::InitDone => self.known = std::mem::take(&mut self.listing),
            Event::Apply(sheet) => drop(self.known.insert(name(&sheet), sheet)),
            Event::Delete(sheet) => drop(self.known.remove(&name(&sheet))),
        }
        self.version += 1;
    }

    /// The prices and their version, if the sheets changed since version `since`.
    pub fn news(&self, since: u64) -> Option<(u64, Prices)> {
        (self.version > since).then(|| (self.version, read(self.known.values())))
    }
}

/// All sheets, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// The currency; `None` without a sheet that can be read.
    pub currency: Option<String>,
    /// The prices, in the order of sheets and of their entries.
    pub prices: Vec<Price>,
    /// Sheets that do not count, and why.
    pub left_out: Vec<LeftOut>,
}

/// A sheet that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The sheet.
    pub sheet: String,
    /// Why, and what to do.
    pub why: String,
}

/// Reads all sheets. The currency is that of the oldest sheet (ties: first by name), so that a sheet that is
/// added in another currency by mistake changes nothing.
pub fn read<'a>(sheets: impl IntoIterator<Item = &'a PriceSheet>) -> Prices {
    let mut sheets: Vec<_> = sheets.into_iter().collect();
    sheets.sort_by_key(|sheet| (sheet.metadata.creation_timestamp.as_ref().map(|time| time.0), name(sheet)));
    let mut read = Prices::default();
    for sheet in sheets {
        match entries(sheet, read.currency.as_deref()) {
            Ok(prices) => {
                read.currency.get_or_insert_with(|| sheet.spec.currency.clone());
                read.prices.extend(prices);
            }
            Err(why) => read.left_out.push(LeftOut { sheet: name(sheet), why }),
        }
    }
    read
}

fn entries(sheet: &PriceSheet, currency: Option<&str>) -> Result<Vec<Price>, String> {
    let own = &sheet.spec.currency;
    if let Some(currency) = currency.filter(|currency| currency != own) {
        return Err(format!("it is in {own}, the sheets before it in {currency}: use one currency"));
    }
    let numbered = sheet.spec.prices.iter().enumerate();
    numbered
        .map(|(index, entry)| price(sheet, entry).map_err(|why| format!("prices[{index}]: {why}")))
        .collect()
}

fn price(sheet: &PriceSheet, entry: &PriceEntry) -> Result<Price, String> {
    let PriceEntry { instance_type, gpu_type, capacity_type, per_node_hour, per_gpu_hour, from } = entry;
    let (unit, amount) = match (per_node_hour, per_gpu_hour) {
        (Some(amount), None) => (PriceUnit::Node, amount),
        (None, Some(amount)) => (PriceUnit::Gpu, amount),
        _ => return Err("give exactly one of perNodeHour and perGpuHour".to_owned()),
    };
    let from: Timestamp =
        from.parse().map_err(|_| "`from` is not a time: write it as 2026-11-01T00:00:00Z".to_owned())?;
    Ok(Price {
        sheet: name(sheet),
        instance_type: instance_type.clone(),
        gpu_type: gpu_type.clone(),
        capacity_type: capacity_type.clone(),
        unit,
        price: HourlyPrice::parse(amount).map_err(|invalid| invalid.to_string())?,
        from: Moment::of(from),
    })
}

fn name(sheet: &PriceSheet) -> String {
    sheet.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use api_types::{PriceEntry, PriceSheet, PriceSheetSpec};
    use serde_json::json;

    use super::read;

    fn entry(per_gpu_hour: &str, from: &str) -> PriceEntry {
        PriceEntry {
            per_gpu_hour: Some(per_gpu_hour.to_owned()),
            from: from.to_owned(),
            ..PriceEntry::default()
        }
    }

    fn sheet(name: &str, created: &str, currency: &str, prices: Vec<PriceEntry>) -> PriceSheet {
        let mut sheet = PriceSheet::new(name, PriceSheetSpec { currency: currency.to_owned(), prices });
        sheet.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
        sheet
    }

    #[test]
    fn sheets_are_read_from_the_oldest_and_one_in_another_currency_is_left_out() {
        let good = vec![entry("2.5", "2026-11-01T00:00:00Z")];
        let newer = sheet("a", "2026-11-02T00:00:00Z", "USD", good.clone());
        let older = sheet("b", "2026-11-01T00:00:00Z", "EUR", good);
        let read = read([&newer, &older]);
        assert_eq!(read.currency.as_deref(), Some("EUR"));
        let sheets: Vec<_> = read.prices.iter().map(|price| (price.sheet.as_str(), price.price.0)).collect();
        assert_eq!(sheets, [("b", 2_500_000)]);
        assert_eq!(read.left_out[0].why, "it is in USD, the sheets before it in EUR: use one currency");
    }

    #[test]
    fn a_bad_entry_takes_its_whole_sheet_along_and_says_which() {
        let prices = vec![entry("1", "2026-11-01T00:00:00Z"), entry("1", "yesterday")];
        let read = read([&sheet("a", "2026-11-01T00:00:00Z", "EUR", prices)]);
        assert_eq!((read.currency, read.prices.len()), (None, 0));
        assert_eq!(read.left_out[0].why, "prices[1]: `from` is not a time: write it as 2026-11-01T00:00:00Z");
    }

    #[test]
    fn an_entry_has_exactly_one_price() {
        let both = PriceEntry { per_node_hour: Some("1".to_owned()), ..entry("1", "2026-11-01T00:00:00Z") };
        let read = read([&sheet("a", "2026-11-01T00:00:00Z", "EUR", vec![both])]);
        assert_eq!(read.left_out.len(), 1);
    }
}
