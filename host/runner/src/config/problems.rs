//! All that is wrong with the settings, in the order in which they are looked at; a start tells the first (W-101).

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    /// The value; something in its place when there is a problem, which then is what counts.
    pub(super) fn value<T: Default>(&mut self, checked: Result<T, String>) -> T {
        self.values(checked.map_err(|problem| vec![problem]))
    }

    /// The same for several settings.
    pub(super) fn values<T: Default>(&mut self, checked: Result<T, Vec<String>>) -> T {
        checked.unwrap_or_else(|problems| {
            self.0.extend(problems);
            T::default()
        })
    }

    /// What was made of the values, if all of them can be used.
    pub(super) fn finish<T>(self, made: T) -> Result<T, Vec<String>> {
        if self.0.is_empty() { Ok(made) } else { Err(self.0) }
    }
}

/// What a start tells.
pub(super) fn first(problems: Vec<String>) -> String {
    problems.into_iter().next().unwrap_or_default()
}
