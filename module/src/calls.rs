//! Serves the call of a script: reads the records of its keys, runs its command, and writes and replies as it does.

use lockage_core::{CallTime, Publish, Record, Served, ServedCall, ServedReply, Timestamp, Write};
use lockage_lua::NEEDS_SLOW_PATH;

use crate::api::{Arguments, Context, Key, Value, guarded};
use crate::scripts;

/// The place of the first key, behind the command's name, the digest and the number of keys.
const FIRST_KEY: usize = 3;

/// Returns the places of a call's keys.
pub(crate) fn keys_at(arguments: &Arguments<'_>) -> std::ops::Range<usize> {
    let count = arguments.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    let end = count.and_then(|count: usize| FIRST_KEY.checked_add(count));
    FIRST_KEY..end.filter(|end| *end <= arguments.len()).unwrap_or(FIRST_KEY)
}

/// Serves the call of a script, or leaves it to Lua. Nothing is written before the command has run on copies.
pub(crate) fn serve(context: &Context<'_>, arguments: &Arguments<'_>) {
    if guarded(None, || served(context, arguments)).is_none() {
        context.call_script(arguments);
    }
}

/// Serves the call; `None` if it is left to Lua, and nothing was done.
fn served(context: &Context<'_>, arguments: &Arguments<'_>) -> Option<()> {
    let script = scripts::find(arguments.get(1)?)?;
    let places = keys_at(arguments);
    if !(1..=2).contains(&places.len()) {
        return None;
    }
    let own: Vec<&[u8]> =
        (places.end..arguments.len()).filter_map(|at| arguments.get(at)).collect();
    let beside = (places.len() == 2).then(|| arguments.get(FIRST_KEY + 1)).flatten();
    let call = ServedCall::read(script, beside, &own).ok()?;
    let (now, skew_ms) = match call.time() {
        CallTime::Store => (Timestamp::from_micros(context.time_us()?).ok()?, 0),
        CallTime::Caller { now, skew_ms } => (now, skew_ms),
    };
    let keys: Vec<Key<'_>> = places.map(|place| context.key(arguments, place)).collect();
    let mut before = [None, None];
    for (slot, key) in before.iter_mut().zip(&keys) {
        *slot = key.read(record_of)?;
    }
    let Served { reply, writes, publish } = call.run(&before, now);
    let mut values = [None, None];
    for (value, write) in values.iter_mut().zip(&writes) {
        if let Some(Write { record: Some(record), .. }) = write {
            *value = Some(record.to_string_bytes()?); // a list is left to Lua
        }
    }
    // The reservation first: a key without one is as if nothing had been.
    let mut takes_memory = scripts::takes_memory(script, &own);
    for at in (0..keys.len()).rev() {
        let Some(Write { ttl_ms, .. }) = &writes[at] else { continue };
        let written = match &values[at] {
            Some(value) => {
                let ttl_ms = ttl_ms.map(|ms| ms.saturating_add(skew_ms));
                keys[at].set(value, ttl_ms, takes_memory)
            }
            None => keys[at].delete(),
        };
        if let Err(refusal) = written {
            refusal.send(context);
            return Some(());
        }
        // A call that has written once goes on.
        takes_memory = false;
    }
    match publish {
        Publish::Nothing => {}
        Publish::Any => keys[0].publish(""),
        Publish::To(waiter) => keys[0].publish(&format!("{waiter:032x}")),
    }
    answer(context, &reply);
    Some(())
}

/// Returns the record that this value holds; `None` if it is not a string that holds one.
fn record_of(value: Value<'_>) -> Option<Option<Record>> {
    match value {
        Value::Nothing => Some(None),
        Value::String(bytes) => Record::of_string(bytes).ok().map(Some),
        Value::Other => None,
    }
}

fn answer(context: &Context<'_>, reply: &ServedReply) {
    match reply {
        ServedReply::Integer(number) => context.reply_integer(*number),
        ServedReply::Packed(bytes) => context.reply_string(bytes),
        ServedReply::List(numbers, text) => {
            context.reply_list(numbers.len() + usize::from(text.is_some()));
            numbers.iter().for_each(|number| context.reply_integer(*number));
            if let Some(text) = text {
                context.reply_string(text);
            }
        }
        ServedReply::NeedsSlowPath => {
            context.reply_error(&format!(
                "{NEEDS_SLOW_PATH} the key holds what only the scripts of the slow path can read"
            ));
        }
    }
}
