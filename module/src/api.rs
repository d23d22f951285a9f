//! The server's interface for modules, behind safe methods: the only code here that is unsafe.
//!
//! The functions and constants are those of `redismodule.h`, which Valkey serves too. A pointer that the server passes
//! lives for its callback, so no wrapper outlives one.

use std::ffi::{CString, c_char, c_int, c_longlong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

pub(crate) type RawContext = *mut c_void;
pub(crate) type RawString = *mut c_void;
pub(crate) type RawArguments = *mut RawString;
pub(crate) type RawFilteredCall = *mut c_void;
type RawKey = *mut c_void;
type RawReply = *mut c_void;

const OK: c_int = 0;
const READ: c_int = 1 << 0;
const TYPE_EMPTY: c_int = 0;
const TYPE_STRING: c_int = 1;
const REPLY_IS_ERROR: c_int = 1;
/// The version 7.0.0: a byte for each number.
const VERSION_7: c_int = 0x07_00_00;
/// Commands of the module itself are not filtered.
const NOT_OWN: c_int = 1 << 0;

/// Runs a callback. A panic would end the server, so it ends the callback alone.
pub(crate) fn guarded<T>(failed: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(failed)
}

/// Declares the functions of the server, each with its name there and its type, and reads their addresses.
macro_rules! functions {
    ($($field:ident = $name:literal: $type:ty;)*) => {
        /// The functions of the server.
        pub(crate) struct Api {
            $($field: $type,)*
        }

        impl Api {
            /// Reads the functions; `None` if the server lacks one.
            ///
            /// # Safety
            /// `get` is the server's function that finds functions by their names.
            unsafe fn read(get: GetFunction) -> Option<Api> {
                Some(Api {
                    $($field: {
                        let mut found: *mut c_void = null_mut();
                        let name = concat!("RedisModule_", $name, "\0");
                        // SAFETY: the name ends with a zero, and there is room for an address.
                        let code = unsafe { get(name.as_ptr().cast(), &mut found) };
                        if code != OK || found.is_null() {
                            return None;
                        }
                        // SAFETY: the function of this name has this type, by `redismodule.h`.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                    },)*
                })
            }
        }
    };
}

type GetFunction = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type OnCommand = extern "C" fn(RawContext, RawArguments, c_int) -> c_int;
type OnFilter = extern "C" fn(RawFilteredCall);

functions! {
    server_version = "GetServerVersion": unsafe extern "C" fn() -> c_int;
    log = "Log": unsafe extern "C" fn(RawContext, *const c_char, *const c_char, ...);
    set_attributes = "SetModuleAttribs":
        unsafe extern "C" fn(RawContext, *const c_char, c_int, c_int);
    create_command = "CreateCommand": unsafe extern "C" fn(
        RawContext, *const c_char, OnCommand, *const c_char, c_int, c_int, c_int) -> c_int;
    register_filter = "RegisterCommandFilter":
        unsafe extern "C" fn(RawContext, OnFilter, c_int) -> *mut c_void;
    filtered_count = "CommandFilterArgsCount": unsafe extern "C" fn(RawFilteredCall) -> c_int;
    filtered_argument = "CommandFilterArgGet":
        unsafe extern "C" fn(RawFilteredCall, c_int) -> RawString;
    replace_filtered = "CommandFilterArgReplace":
        unsafe extern "C" fn(RawFilteredCall, c_int, RawString) -> c_int;
    create_string = "CreateString":
        unsafe extern "C" fn(RawContext, *const c_char, usize) -> RawString;
    string_bytes = "StringPtrLen": unsafe extern "C" fn(RawString, *mut usize) -> *const c_char;
    is_keys_request = "IsKeysPositionRequest": unsafe extern "C" fn(RawContext) -> c_int;
    key_at = "KeyAtPos": unsafe extern "C" fn(RawContext, c_int);
    open_key = "OpenKey": unsafe extern "C" fn(RawContext, RawString, c_int) -> RawKey;
    close_key = "CloseKey": unsafe extern "C" fn(RawKey);
    key_type = "KeyType": unsafe extern "C" fn(RawKey) -> c_int;
    string_value = "StringDMA": unsafe extern "C" fn(RawKey, *mut usize, c_int) -> *mut c_char;
    call = "Call": unsafe extern "C" fn(RawContext, *const c_char, *const c_char, ...) -> RawReply;
    free_reply = "FreeCallReply": unsafe extern "C" fn(RawReply);
    reply_with_reply = "ReplyWithCallReply": unsafe extern "C" fn(RawContext, RawReply) -> c_int;
    reply_type = "CallReplyType": unsafe extern "C" fn(RawReply) -> c_int;
    reply_integer = "ReplyWithLongLong": unsafe extern "C" fn(RawContext, c_longlong) -> c_int;
    reply_array = "ReplyWithArray": unsafe extern "C" fn(RawContext, std::ffi::c_long) -> c_int;
    reply_string = "ReplyWithStringBuffer":
        unsafe extern "C" fn(RawContext, *const c_char, usize) -> c_int;
    reply_error = "ReplyWithError": unsafe extern "C" fn(RawContext, *const c_char) -> c_int;
}

#[repr(C)]
struct Timeval {
    seconds: std::ffi::c_long,
    micros: std::ffi::c_long,
}

unsafe extern "C" {
    fn gettimeofday(time: *mut Timeval, zone: *mut c_void) -> c_int;
}

static LOADED: OnceLock<Api> = OnceLock::new();

impl Api {
    /// Reads the functions of the server that loads the module with so many arguments. Returns `None` if there are any, or
    /// if the server is too old, as its log says.
    pub(crate) fn load(context: RawContext, arguments: c_int) -> Option<&'static Api> {
        // SAFETY: a context begins with the address of the function that finds functions.
        let api = unsafe {
            let get = *context.cast::<*mut c_void>();
            Api::read(std::mem::transmute::<*mut c_void, GetFunction>(get))
        }?;
        let refusal = match arguments {
            // SAFETY: the function takes nothing. Redis 6.2 has all of them, but `call` knows no rules for scripts there.
            0 if unsafe { (api.server_version)() } >= VERSION_7 => {
                return Some(LOADED.get_or_init(|| api));
            }
            0 => {
                c"lockage needs Redis 7.0 or later, or Valkey: without the module, its scripts run"
            }
            _ => c"lockage takes no arguments",
        };
        // SAFETY: the log copies its text, which has no format.
        unsafe { (api.log)(context, c"warning".as_ptr(), refusal.as_ptr()) };
        None
    }

    pub(crate) fn loaded() -> Option<&'static Api> {
        LOADED.get()
    }

    /// Returns the server's time, in microseconds since the epoch, as `TIME` does. From 7.2 on the server has a function for
    /// it; all versions read this clock.
    pub(crate) fn time_us(&self) -> Option<u64> {
        let mut time = Timeval { seconds: 0, micros: 0 };
        // SAFETY: the first argument is as C has it, and the second may be null.
        let code = unsafe { gettimeofday(&mut time, null_mut()) };
        let (seconds, micros) =
            (u64::try_from(time.seconds).ok()?, u64::try_from(time.micros).ok()?);
        (code == 0).then(|| seconds.checked_mul(1_000_000)?.checked_add(micros))?
    }

    /// Returns the bytes of a string.
    ///
    /// # Safety
    /// The string lives for as long as the result.
    unsafe fn bytes<'s>(&self, string: RawString) -> &'s [u8] {
        let mut length = 0;
        // SAFETY: the caller's.
        unsafe {
            let bytes = (self.string_bytes)(string, &mut length);
            std::slice::from_raw_parts(bytes.cast(), length)
        }
    }
}

/// The arguments of a command, with its name.
pub(crate) struct Arguments<'c> {
    api: &'c Api,
    all: &'c [RawString],
}

impl<'c> Arguments<'c> {
    pub(crate) fn new(api: &'c Api, arguments: RawArguments, count: c_int) -> Self {
        let count = usize::try_from(count).unwrap_or_default();
        // SAFETY: the server passes so many arguments.
        Arguments { api, all: unsafe { std::slice::from_raw_parts(arguments, count) } }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, place: usize) -> Option<&'c [u8]> {
        // SAFETY: arguments live for the callback.
        self.all.get(place).map(|string| unsafe { self.api.bytes(*string) })
    }
}

/// A call that the server is about to run.
pub(crate) struct FilteredCall<'c> {
    api: &'c Api,
    raw: RawFilteredCall,
}

impl<'c> FilteredCall<'c> {
    pub(crate) fn new(api: &'c Api, raw: RawFilteredCall) -> Self {
        FilteredCall { api, raw }
    }

    pub(crate) fn argument(&self, place: c_int) -> Option<&'c [u8]> {
        // SAFETY: the server passes the call, and checks the place.
        let string = unsafe {
            if place >= (self.api.filtered_count)(self.raw) {
                return None;
            }
            (self.api.filtered_argument)(self.raw, place)
        };
        // SAFETY: it is an argument of the call.
        Some(unsafe { self.api.bytes(string) })
    }

    /// Gives the command another name.
    pub(crate) fn rename(&self, name: &str) {
        // SAFETY: the call takes the string, and frees the one before it.
        unsafe {
            let name = (self.api.create_string)(null_mut(), name.as_ptr().cast(), name.len());
            (self.api.replace_filtered)(self.raw, 0, name);
        }
    }
}

/// One call of the module by the server.
pub(crate) struct Context<'c> {
    api: &'c Api,
    raw: RawContext,
}

impl<'c> Context<'c> {
    pub(crate) fn new(api: &'c Api, raw: RawContext) -> Self {
        Context { api, raw }
    }

    /// Names the module.
    pub(crate) fn attribute(&self, name: &str, version: c_int) -> bool {
        let Ok(name) = CString::new(name) else { return false };
        // SAFETY: the server copies the name.
        unsafe { (self.api.set_attributes)(self.raw, name.as_ptr(), version, 1) };
        true
    }

    /// Creates a command; returns whether the server has taken it.
    pub(crate) fn command(&self, name: &str, run: OnCommand, flags: &str) -> bool {
        let (Ok(name), Ok(flags)) = (CString::new(name), CString::new(flags)) else { return false };
        let (name, flags) = (name.as_ptr(), flags.as_ptr());
        // SAFETY: the server copies both.
        unsafe { (self.api.create_command)(self.raw, name, run, flags, 1, 1, 1) == OK }
    }

    /// Has each command that a client sends pass a filter; returns whether the server has taken it.
    pub(crate) fn filter(&self, filter: OnFilter) -> bool {
        // SAFETY: the filter is never unregistered.
        unsafe { !(self.api.register_filter)(self.raw, filter, NOT_OWN).is_null() }
    }

    /// Returns whether the server asks for the places of the keys alone.
    pub(crate) fn is_asked_for_keys(&self) -> bool {
        // SAFETY: of this context.
        unsafe { (self.api.is_keys_request)(self.raw) != 0 }
    }

    pub(crate) fn key_at(&self, place: usize) {
        // SAFETY: of this context; the server checks the place.
        unsafe { (self.api.key_at)(self.raw, place as c_int) };
    }

    /// Returns the key that this argument names.
    pub(crate) fn key(&self, arguments: &Arguments<'c>, place: usize) -> Key<'c> {
        Key { api: self.api, context: self.raw, name: arguments.all[place] }
    }

    /// Returns the time of the server's clock, in microseconds since the epoch.
    pub(crate) fn time_us(&self) -> Option<u64> {
        self.api.time_us()
    }

    /// Calls the script, and replies its reply.
    pub(crate) fn call_script(&self, arguments: &Arguments<'c>) {
        let own = &arguments.all[1.min(arguments.len())..];
        // SAFETY: `v` is an array of strings and their number.
        let reply = unsafe {
            // `M`: otherwise a later server lets all commands of the script run without memory.
            let (name, format) = (c"EVALSHA".as_ptr(), c"!Mv".as_ptr());
            (self.api.call)(self.raw, name, format, own.as_ptr(), own.len())
        };
        Answer { api: self.api, reply: NonNull::new(reply) }.send(self);
    }

    pub(crate) fn reply_integer(&self, number: i64) {
        // SAFETY: of this context.
        unsafe { (self.api.reply_integer)(self.raw, number) };
    }

    pub(crate) fn reply_string(&self, bytes: &[u8]) {
        // SAFETY: the server copies the bytes.
        unsafe { (self.api.reply_string)(self.raw, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Begins a list of so many elements, which follow.
    pub(crate) fn reply_list(&self, length: usize) {
        // SAFETY: of this context.
        unsafe { (self.api.reply_array)(self.raw, length as std::ffi::c_long) };
    }

    pub(crate) fn reply_error(&self, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the server copies the text.
        unsafe { (self.api.reply_error)(self.raw, text.as_ptr()) };
    }
}

/// A key that an argument of the callback names.
pub(crate) struct Key<'c> {
    api: &'c Api,
    context: RawContext,
    name: RawString,
}

/// A key while it is open. One without a value is none.
struct Open<'k> {
    api: &'k Api,
    raw: Option<NonNull<c_void>>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: it was opened, and is closed once.
            unsafe { (self.api.close_key)(raw.as_ptr()) };
        }
    }
}

/// A reply of the server to a command of the module, to be passed on; none if the server did not run it.
pub(crate) struct Answer<'c> {
    api: &'c Api,
    reply: Option<NonNull<c_void>>,
}

impl Answer<'_> {
    pub(crate) fn send(self, context: &Context<'_>) {
        match self.reply {
            // SAFETY: the reply is alive until the drop.
            Some(reply) => unsafe {
                (self.api.reply_with_reply)(context.raw, reply.as_ptr());
            },
            None => context.reply_error("ERR the server did not run a command of lockage's module"),
        }
    }

    fn is_error(&self) -> bool {
        // SAFETY: the reply is alive until the drop.
        self.reply
            .is_none_or(|reply| unsafe { (self.api.reply_type)(reply.as_ptr()) == REPLY_IS_ERROR })
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply {
            // SAFETY: it is freed once.
            unsafe { (self.api.free_reply)(reply.as_ptr()) };
        }
    }
}

/// The value under a key.
pub(crate) enum Value<'k> {
    Nothing,
    String(&'k [u8]),
    /// A value of another type.
    Other,
}

impl Key<'_> {
    /// Reads the value under the key, which is open meanwhile: no command of the server can change it.
    pub(crate) fn read<T>(&self, read: impl FnOnce(Value<'_>) -> T) -> T {
        // SAFETY: the name is an argument of the callback.
        let raw = unsafe { (self.api.open_key)(self.context, self.name, READ) };
        let open = Open { api: self.api, raw: NonNull::new(raw) };
        let Some(raw) = open.raw else { return read(Value::Nothing) };
        // SAFETY: the key is open.
        read(match unsafe { (self.api.key_type)(raw.as_ptr()) } {
            TYPE_EMPTY => Value::Nothing,
            TYPE_STRING => {
                let mut length = 0;
                // SAFETY: the key is open, and its bytes live until it is closed.
                Value::String(unsafe {
                    let bytes = (self.api.string_value)(raw.as_ptr(), &mut length, READ);
                    std::slice::from_raw_parts(bytes.cast(), length)
                })
            }
            _ => Value::Other,
        })
    }

    /// Writes the value, and its time to live in milliseconds unless that stays. As in a script, the server refuses it
    /// where it takes no writes, and where it is full if it `takes_memory`.
    ///
    /// # Errors
    /// The server's refusal: nothing was done.
    pub(crate) fn set(
        &self,
        value: &[u8],
        ttl_ms: Option<u64>,
        takes_memory: bool,
    ) -> Result<(), Answer<'_>> {
        let (bytes, length) = (value.as_ptr().cast::<c_char>(), value.len());
        let ttl_ms = ttl_ms.map(|ms| c_longlong::try_from(ms).unwrap_or(c_longlong::MAX));
        let name = c"SET".as_ptr();
        // `!` replicates it, `S` and `M` are the rules of scripts for servers without writes and without memory, and `E`
        // returns errors; then a string, bytes, text, and a number.
        let format = match (takes_memory, ttl_ms.is_some()) {
            (true, true) => c"!SMEsbcl",
            (true, false) => c"!SMEsbc",
            (false, true) => c"!SEsbcl",
            (false, false) => c"!SEsbc",
        };
        let format = format.as_ptr();
        // SAFETY: the arguments are those of the format, and live for the call.
        let reply = unsafe {
            let (call, keep, span) = (self.api.call, c"KEEPTTL".as_ptr(), c"PX".as_ptr());
            match ttl_ms {
                None => call(self.context, name, format, self.name, bytes, length, keep),
                Some(ms) => call(self.context, name, format, self.name, bytes, length, span, ms),
            }
        };
        self.done(reply)
    }

    /// Deletes the key.
    ///
    /// # Errors
    /// As of [`Key::set`].
    pub(crate) fn delete(&self) -> Result<(), Answer<'_>> {
        // SAFETY: the argument is that of the format.
        let reply =
            unsafe { (self.api.call)(self.context, c"DEL".as_ptr(), c"!SEs".as_ptr(), self.name) };
        self.done(reply)
    }

    /// Publishes a message in the channel of the key's name, which is that of its shard.
    pub(crate) fn publish(&self, message: &str) {
        let (bytes, length) = (message.as_ptr().cast::<c_char>(), message.len());
        let (name, format) = (c"SPUBLISH".as_ptr(), c"!Esb".as_ptr());
        // SAFETY: the arguments are those of the format, and live for the call.
        let reply =
            unsafe { (self.api.call)(self.context, name, format, self.name, bytes, length) };
        // Waiters poll from time to time.
        drop(self.done(reply));
    }

    /// Reads the reply to a command of the module.
    fn done(&self, reply: RawReply) -> Result<(), Answer<'_>> {
        let answer = Answer { api: self.api, reply: NonNull::new(reply) };
        if answer.is_error() { Err(answer) } else { Ok(()) }
    }
}
