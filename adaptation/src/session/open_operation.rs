//! The view of an operation that the session of a plugin has.

use std::pin::Pin;
use std::sync::Arc;

use crate::api::operation::OperationOutcome;
use crate::api::request::Request;
use crate::session::PluginSession;
use crate::session::journal::JournalEnd;

/// An operation in which a plugin is asked. Sessions hold this trait instead of the operation
/// itself, so that the code of a session can be read and tested without operations.
pub(crate) trait OpenOperation: Send + Sync {
    /// Adds a request that the plugin missed to the journal of the plugin. A request that can be
    /// vetoed is held there until the operation has ended.
    fn hold(&self, session: &Arc<PluginSession>, request: &Arc<Request>, end: JournalEnd);

    /// Adds a request that rolls the operation back to the journal of the plugin, unless the plugin
    /// has not seen what is rolled back.
    fn hold_rollback(&self, session: &Arc<PluginSession>, request: &Arc<Request>);

    /// Returns whether the plugin was asked and turned out not to have taken the request that began
    /// what is rolled back.
    fn is_unseen_by(&self, session: &Arc<PluginSession>) -> bool;

    /// Waits for the end of the operation. Returns `None` if the operation is open for too long.
    fn outcome(&self) -> Pin<Box<dyn Future<Output = Option<OperationOutcome>> + Send + '_>>;
}
