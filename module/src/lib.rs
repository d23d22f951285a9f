//! The machines of lockage inside a server: a module for Redis 7.0 or later and Valkey.
//!
//! A client calls a script by its digest, `EVALSHA digest 1 key argument...`. The module knows the digests of the
//! scripts of its version: it runs their calls by the machines of `lockage-core`, on the same records, and replies as
//! the scripts do. All other calls go to Lua as before: scripts of other versions, records of sliding logs, and wrong
//! arguments. So clients need no change, servers with and without the module can serve the same keys in turn, and
//! either may come first in a rolling change.
//!
//! The server's filter of commands gives such a call another name, `LOCKAGE.CALL`. A user with a list of commands needs it
//! besides `EVALSHA`.

mod api;
mod calls;
mod scripts;

use std::ffi::c_int;

use api::{Api, Arguments, Context, FilteredCall, RawArguments, RawContext, RawFilteredCall};

/// The command in the place of the calls of scripts.
const CALL: &str = "lockage.call";

/// Registers the commands and the filter. The server calls it once, and refuses a module that returns 1.
#[unsafe(no_mangle)]
extern "C" fn RedisModule_OnLoad(context: RawContext, _: RawArguments, count: c_int) -> c_int {
    api::guarded(1, || {
        let Some(api) = Api::load(context, count) else { return 1 };
        let context = Context::new(api, context);
        scripts::prepare();
        let is_loaded = context.attribute("lockage", 1)
            && context.command(CALL, serve, "may-replicate fast getkeys-api")
            && context.filter(rename);
        c_int::from(!is_loaded)
    })
}

/// Serves one call of a script.
extern "C" fn serve(context: RawContext, arguments: RawArguments, count: c_int) -> c_int {
    api::guarded(0, || {
        let Some(api) = Api::loaded() else { return 1 };
        let context = Context::new(api, context);
        let arguments = Arguments::new(api, arguments, count);
        if context.is_asked_for_keys() {
            calls::keys_at(&arguments).for_each(|place| context.key_at(place));
        } else {
            calls::serve(&context, &arguments);
        }
        0
    })
}

/// Renames a call of a script that the module knows.
extern "C" fn rename(call: RawFilteredCall) {
    api::guarded((), || {
        let Some(api) = Api::loaded() else { return };
        let call = FilteredCall::new(api, call);
        let is_evalsha = call.argument(0).is_some_and(|name| name.eq_ignore_ascii_case(b"evalsha"));
        if !is_evalsha || call.argument(2).is_none_or(|count| count != b"1" && count != b"2") {
            return;
        }
        if call.argument(1).and_then(scripts::find).is_some() {
            call.rename(CALL);
        }
    });
}
