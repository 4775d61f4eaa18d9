//! What can go wrong while a page is made.

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A page template could not be filled in.
    #[error("the page template {template}: {source:#}")]
    Template {
        /// The template.
        template: &'static str,
        /// What the template engine said.
        source: minijinja::Error,
    },
    /// A plot could not be drawn.
    #[error("the plot of {plot}: {message}")]
    Plot {
        /// What it shows.
        plot: String,
        /// What the drawing library said.
        message: String,
    },
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// What was exported could not be written.
    #[error("cannot write: {reason}")]
    Write {
        /// Why.
        reason: std::io::Error,
    },
}
