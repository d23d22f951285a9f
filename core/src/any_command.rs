//! Type-erased commands, for stores and messages that do not know the type.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Cut, Publish, Ran};
use crate::error::{RecordError, ReplyError};
use crate::limiter::RequestId;
use crate::record::Record;
use crate::time::Timestamp;

/// The outcome of a command of unknown type: see [`AnyCommand`].
pub type AnyOutcome = Box<dyn Any + Send>;

/// A type-erased command. Its outcome is a box of the command's own outcome.
///
/// ```
/// use lockage_core::{Acquire, AnyCommand, Command, Decision, Limit, Timestamp};
///
/// let limit: Limit = "fixed-window 1/min".parse()?;
/// let acquire = Acquire::new(limit, 1)?;
/// let outcome = AnyCommand::new(acquire).apply(&mut None, Timestamp::EPOCH)?;
/// assert!(outcome.downcast::<Decision>().is_ok_and(|decision| decision.is_allowed()));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AnyCommand(Arc<dyn DynCommand>);

impl AnyCommand {
    /// Erases the type of this command.
    pub fn new(command: impl Command) -> Self {
        AnyCommand(Arc::new(command))
    }

    /// Returns the command, if it is of this type.
    pub fn downcast_ref<C: Command>(&self) -> Option<&C> {
        self.0.as_any().downcast_ref()
    }
}

impl fmt::Debug for AnyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyCommand").field(&self.0.encode_text().script()).finish()
    }
}

/// The form of a command that can be a trait object.
trait DynCommand: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn encode_text(&self) -> TextCall;
    fn encode_packed(&self) -> Option<PackedCall>;
    fn cut(&self) -> Option<Cut<AnyCommand>>;
    fn outcome(&self, reply: &[i64]) -> Result<AnyOutcome, ReplyError>;
    fn reply(&self, outcome: &dyn Any, ran: &Ran<'_>) -> Vec<i64>;
    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<AnyOutcome, RecordError>;
    fn beside(&self) -> Option<RequestId>;
    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<AnyOutcome, RecordError>;
    fn is_repeatable(&self) -> bool;
    fn writes_again(&self, outcome: &dyn Any) -> bool;
    fn publishes(&self, outcome: &dyn Any, stored: Option<&Record>) -> Publish;
}

impl<C: Command> DynCommand for C {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn encode_text(&self) -> TextCall {
        Command::encode_text(self)
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        Command::encode_packed(self)
    }

    fn cut(&self) -> Option<Cut<AnyCommand>> {
        let Cut { parts, join } = Command::cut(self)?;
        let join = Box::new(|all: Vec<AnyOutcome>| -> AnyOutcome {
            let own = |it: AnyOutcome| *it.downcast().expect("the outcome of its part");
            Box::new(join(all.into_iter().map(own).collect()))
        });
        Some(Cut { parts: parts.into_iter().map(AnyCommand::new).collect(), join })
    }

    fn outcome(&self, reply: &[i64]) -> Result<AnyOutcome, ReplyError> {
        Ok(Box::new(Command::outcome(self, reply)?))
    }

    fn reply(&self, outcome: &dyn Any, ran: &Ran<'_>) -> Vec<i64> {
        Command::reply(self, own(outcome), ran)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<AnyOutcome, RecordError> {
        Ok(Box::new(Command::apply(self, slot, now)?))
    }

    fn beside(&self) -> Option<RequestId> {
        Command::beside(self)
    }

    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<AnyOutcome, RecordError> {
        Ok(Box::new(Command::apply_beside(self, slot, beside, now)?))
    }

    fn is_repeatable(&self) -> bool {
        Command::is_repeatable(self)
    }

    fn writes_again(&self, outcome: &dyn Any) -> bool {
        Command::writes_again(self, own(outcome))
    }

    fn publishes(&self, outcome: &dyn Any, stored: Option<&Record>) -> Publish {
        Command::publishes(self, own(outcome), stored)
    }
}

fn own<T: 'static>(outcome: &dyn Any) -> &T {
    outcome.downcast_ref().expect("the outcome is this command's own")
}

impl Command for AnyCommand {
    type Outcome = AnyOutcome;

    fn encode_text(&self) -> TextCall {
        self.0.encode_text()
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        self.0.encode_packed()
    }

    fn cut(&self) -> Option<Cut<AnyCommand>> {
        self.0.cut()
    }

    fn outcome(&self, reply: &[i64]) -> Result<AnyOutcome, ReplyError> {
        self.0.outcome(reply)
    }

    fn reply(&self, outcome: &AnyOutcome, ran: &Ran<'_>) -> Vec<i64> {
        self.0.reply(&**outcome, ran)
    }

    fn apply(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<AnyOutcome, RecordError> {
        self.0.apply(slot, now)
    }

    fn beside(&self) -> Option<RequestId> {
        self.0.beside()
    }

    fn apply_beside(
        &self,
        slot: &mut Option<Record>,
        beside: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<AnyOutcome, RecordError> {
        self.0.apply_beside(slot, beside, now)
    }

    fn is_repeatable(&self) -> bool {
        self.0.is_repeatable()
    }

    fn writes_again(&self, outcome: &AnyOutcome) -> bool {
        self.0.writes_again(&**outcome)
    }

    fn publishes(&self, outcome: &AnyOutcome, stored: Option<&Record>) -> Publish {
        self.0.publishes(&**outcome, stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acquire, Decision, Encoded, Limit, Peek};

    #[test]
    fn a_command_without_its_type_is_encoded_applied_and_read_as_with_it() {
        let limit: Limit = "token-bucket 5/s burst 5".parse().unwrap();
        let acquire = Acquire::new(limit, 2).unwrap();
        let any = AnyCommand::new(acquire);
        assert_eq!(Command::encode(&any), acquire.encode());
        assert!(matches!(Command::encode(&any), Encoded::Packed(_)));
        assert_eq!(Command::encode_text(&any), Command::encode_text(&acquire));
        assert_eq!(Command::is_repeatable(&any), Command::is_repeatable(&acquire));
        assert!(Command::is_repeatable(&AnyCommand::new(Peek::new(limit, 1))));
        let own = |outcome: AnyOutcome| *outcome.downcast::<Decision>().unwrap();
        let (mut slot, mut other) = (None, None);
        let told = Command::apply(&any, &mut slot, Timestamp::EPOCH).unwrap();
        assert_eq!(own(told), Command::apply(&acquire, &mut other, Timestamp::EPOCH).unwrap());
        assert_eq!(slot, other);
        let reply = [0, 0];
        let told = Command::outcome(&any, &reply).unwrap();
        assert_eq!(own(told), Command::outcome(&acquire, &reply).unwrap());
        assert!(Command::outcome(&any, &[]).is_err());
        assert_eq!(any.downcast_ref::<Acquire>(), Some(&acquire));
        assert!(any.downcast_ref::<Peek>().is_none());
    }
}
