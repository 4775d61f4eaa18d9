//! Errors while a page is made.

/// Reason why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A page template could not be filled in.
    #[error("the page template {template}: {source:#}")]
    Template {
        /// The template.
        template: &'static str,
        /// Message of the template engine.
        source: minijinja::Error,
    },
    /// A plot could not be drawn.
    #[error("the plot of {plot}: {message}")]
    Plot {
        /// Subject of the plot.
        plot: String,
        /// Message of the drawing library.
        message: String,
    },
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// An export could not be written.
    #[error("cannot write: {reason}")]
    Write {
        /// Reason for the failure.
        reason: std::io::Error,
    },
}
