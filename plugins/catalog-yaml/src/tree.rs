//! YAML as a tree that keeps what a catalog needs: the text of scalars as written, and places.
//!
//! Built from the parser's events, since a general YAML value would turn `0.50` into a number, and brings half again of
//! the plugin's size. An alias is the anchored node itself, so repeated aliases take no room (no "billion laughs").

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use saphyr_parser::{BufferedInput, Event, Marker, Parser, ScalarStyle, Span, SpannedEventReceiver};

/// A node and where it starts.
pub(crate) struct Item {
    pub(crate) start: Marker,
    pub(crate) data: Data,
}

pub(crate) enum Data {
    /// `plain` is without quotes and tag: only then can it mean null.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Rc<Item>>),
    Map(Vec<(Rc<Item>, Rc<Item>)>),
}

impl Item {
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// The YAML documents of a text, or the first place where it is none.
pub(crate) fn parse(text: &str) -> Result<Vec<Rc<Item>>, (Marker, String)> {
    let mut builder = Builder::default();
    let outcome = Parser::new(BufferedInput::new(text.chars())).load(&mut builder, true);
    match (builder.error, outcome) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err((*error.marker(), error.info().to_owned())),
        (None, Ok(())) => Ok(builder.roots),
    }
}

#[derive(Default)]
struct Builder {
    roots: Vec<Rc<Item>>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Rc<Item>>,
    error: Option<(Marker, String)>,
}

/// A list or mapping whose end has not come yet; a mapping's keys and values take turns.
struct Open {
    start: Marker,
    anchor: usize,
    items: Vec<Rc<Item>>,
}

impl SpannedEventReceiver<'_> for Builder {
    fn on_event(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                self.add(
                    span.start,
                    anchor,
                    Data::Scalar {
                        text: text.into_owned(),
                        plain,
                    },
                );
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                self.open.push(Open {
                    start: span.start,
                    anchor,
                    items: Vec::new(),
                });
            }
            Event::SequenceEnd => {
                if let Some(Open { start, anchor, items }) = self.open.pop() {
                    self.add(start, anchor, Data::List(items));
                }
            }
            Event::MappingEnd => {
                if let Some(Open { start, anchor, items }) = self.open.pop() {
                    let entries = self.entries(items);
                    self.add(start, anchor, Data::Map(entries));
                }
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(item) => self.place(item),
                None => self.fail(span.start, "an alias cannot stand inside of what it names".into()),
            },
            _ => {}
        }
    }
}

impl Builder {
    fn add(&mut self, start: Marker, anchor: usize, data: Data) {
        let item = Rc::new(Item { start, data });
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&item));
        }
        self.place(item);
    }

    fn place(&mut self, item: Rc<Item>) {
        self.open
            .last_mut()
            .map_or(&mut self.roots, |open| &mut open.items)
            .push(item);
    }

    fn entries(&mut self, items: Vec<Rc<Item>>) -> Vec<(Rc<Item>, Rc<Item>)> {
        let mut entries = Vec::new();
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            entries.push((key, value));
        }
        let mut seen = BTreeSet::new();
        let twice = entries.iter().find_map(|(key, _)| {
            key.scalar()
                .filter(|text| !seen.insert(*text))
                .map(|text| (key.start, text))
        });
        if let Some((start, text)) = twice {
            let message = format!("the key {text:?} is given twice");
            self.fail(start, message);
        }
        entries
    }

    fn fail(&mut self, at: Marker, message: String) {
        self.error.get_or_insert((at, message));
    }
}
