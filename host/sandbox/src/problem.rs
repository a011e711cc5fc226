//! What is wrong with a plugins file, a plugin or a catalog document, in the operator's terms: all of it in one answer.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::one_line;

/// Which text a problem is about; decides how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The plugins file, a plugin, or settings from the environment.
    Plugins,
    /// A catalog document breaks a rule.
    Catalog,
    /// A catalog document cannot be read as one.
    CatalogShape,
}

/// A place in a file; lines and columns count from 1, 0 is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What the file is.
    pub subject: Subject,
    /// The file, when the problem is in one.
    pub file: Option<PathBuf>,
    /// From 1; 0 when unknown.
    pub line: u32,
    /// From 1; 0 when unknown.
    pub column: u32,
    /// Path of the field, such as `plugins[0].limits.time`; may be empty.
    pub field: String,
    /// What is wrong, and what would be valid.
    pub message: String,
}

const MESSAGE_BYTES: usize = 4096;

impl Problem {
    /// A problem that is in no file.
    pub fn bare(message: impl fmt::Display) -> Self {
        Self::new(None, Place::default(), String::new(), message)
    }

    pub(crate) fn new(file: Option<&Path>, place: Place, field: String, message: impl fmt::Display) -> Self {
        Self {
            subject: Subject::Plugins,
            file: file.map(Path::to_owned),
            line: place.line,
            column: place.column,
            field,
            message: one_line(&message.to_string(), MESSAGE_BYTES),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        match self.subject {
            Subject::Catalog | Subject::CatalogShape => {
                let verb = if self.subject == Subject::CatalogShape {
                    "parse catalog"
                } else {
                    "catalog"
                };
                write!(f, "{verb} {file}: {}", self.message)?;
                match (self.line, self.column) {
                    (0, _) => Ok(()),
                    (line, 0) => write!(f, " (line {line})"),
                    (line, column) => write!(f, " (line {line}, column {column})"),
                }
            }
            Subject::Plugins => {
                if self.file.is_some() {
                    write!(f, "{file}:")?;
                    if self.line > 0 {
                        write!(f, "{}:{}:", self.line, self.column)?;
                    }
                    f.write_str(" ")?;
                }
                if !self.field.is_empty() {
                    write!(f, "{}: ", self.field)?;
                }
                f.write_str(&self.message)
            }
        }
    }
}

/// At least one problem, in the order of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// `value` when there are no problems.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let place = Place { line: 3, column: 5 };
        let mut problem = Problem::new(Some(Path::new("p.yaml")), place, "plugins[0].name".into(), "two\nlines");
        assert_eq!(problem.to_string(), "p.yaml:3:5: plugins[0].name: two lines");
        problem.subject = Subject::Catalog;
        assert_eq!(problem.to_string(), "catalog p.yaml: two lines (line 3, column 5)");
        problem.subject = Subject::CatalogShape;
        (problem.line, problem.column) = (0, 0);
        assert_eq!(problem.to_string(), "parse catalog p.yaml: two lines");
        assert_eq!(Problem::bare("x").to_string(), "x");
        assert_eq!(
            Problems(vec![Problem::bare("x"), Problem::bare("y")]).to_string(),
            "x\ny"
        );
    }
}
