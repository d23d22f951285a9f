//! Requests for several ids in one decision.

use lockage_core::{AcquireAll, CallTime, OneOutcome};
use lockage_redis::AllCall;

use super::*;

impl Keys<'_> {
    /// Decides on requests for several keys. If their script has run before, `replied` is its reply.
    pub(in crate::simulation) fn run_all(
        &mut self,
        keys: &[String],
        command: &AcquireAll,
        replied: Option<&Reply>,
        true_us: u64,
    ) -> Result<Result<Vec<OneOutcome>, StoreError>, Fault> {
        let now = self.time(true_us);
        let mut records = Vec::with_capacity(keys.len());
        for key in keys {
            records.push(self.slots.entry(key.clone()).or_default().at(now));
        }
        let outcome = command.apply(&mut records, now);
        if outcome.is_ok() {
            for (key, record) in keys.iter().zip(records) {
                self.slots.get_mut(key).expect("it was inserted").put(record, now);
            }
        }
        let scripted = match (replied, &self.scripts) {
            (Some(reply), _) => Some(AllCall::new(command, CallTime::Store).outcome(reply)),
            (None, Some(_)) => Some(self.run_script_of_all(keys, command, true_us)?),
            (None, None) => None,
        };
        if let (Some(scripted), Some(scripts)) = (scripted, &self.scripts) {
            let is_same = match (&outcome, &scripted) {
                (Ok(outcome), Ok(scripted)) => outcome == scripted,
                (Err(_), Err(_)) => true,
                _ => false,
            };
            let holds_same = keys.iter().all(|key| {
                let slots = self.slots.get_mut(key).expect("it was inserted");
                holds_same(scripts, slots, (key, None), now)
            });
            if !is_same || !holds_same {
                let what = format!(
                    "{command:?} on {keys:?}: answers alike: {is_same}, stores alike: {holds_same}: {outcome:?}, {scripted:?}"
                );
                return fault(Kind::Script, what);
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.extend(keys.iter().map(|key| (true_us, key.clone(), self.slots[key].clone())));
        }
        Ok(outcome.map_err(StoreError::from))
    }

    fn run_script_of_all(
        &mut self,
        keys: &[String],
        command: &AcquireAll,
        true_us: u64,
    ) -> Result<Result<Vec<OneOutcome>, StoreError>, Fault> {
        let mut call = AllCall::new(command, CallTime::Store);
        loop {
            let request = call.request(keys.iter().map(String::as_str));
            // The digest and the number of keys come first.
            let words: Vec<Vec<u8>> = request.arguments().map(<[u8]>::to_vec).collect();
            let arguments: Vec<&[u8]> = words[2 + keys.len()..].iter().map(Vec::as_slice).collect();
            let reply = self.eval(call.script().source(), keys, &arguments, true_us)?;
            if !call.goes_on_after(&reply, false) {
                return Ok(call.outcome(&reply));
            }
        }
    }
}
