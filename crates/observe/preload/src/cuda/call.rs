//! Work that every hook of the driver does.

use super::arguments::{Facts, facts};
use super::graph::Capturing;
use super::{
    Arguments, COUNT, Hook, NOT_FOUND, SUCCESS, cupti, driver, graph, kernel, pinned, resolve,
};
use crate::thread::{Thread, this};
use crate::{attachment, bandwidth};
use record::cuda::{Category, FUNCTIONS};
use record::{Kind, Trouble, clock};

macro_rules! hook {
    ($number:literal, $name:ident) => {
        /// The driver's function of this name, recorded.
        ///
        /// # Safety
        /// As the driver's function of this name.
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(
            a0: usize,
            a1: usize,
            a2: usize,
            a3: usize,
            a4: usize,
            a5: usize,
            a6: usize,
            a7: usize,
            a8: usize,
            a9: usize,
            a10: usize,
            a11: usize,
            a12: usize,
            a13: usize,
            a14: usize,
            a15: usize,
        ) -> usize {
            let arguments = [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15];
            // SAFETY: the program's own arguments for this function.
            unsafe { call($number, &arguments) }
        }
    };
}

#[allow(clippy::too_many_arguments)]
mod exported {
    use super::super::Hook;
    use super::call;
    include!(concat!(env!("OUT_DIR"), "/hooks.rs"));
}

pub(super) use exported::HOOKS;

/// Functions that are passed through.
static ONLY_ASKS: [bool; COUNT] = {
    let mut all = [false; COUNT];
    let mut number = 0;
    while number < COUNT {
        all[number] = FUNCTIONS[number].only_asks();
        number += 1;
    }
    all
};

/// Calls function `number` of the driver, between two records if there is a recording, and with
/// the bandwidth lock around its work if that is wanted.
///
/// # Safety
/// The arguments must be what the program passed to that function.
#[inline(never)]
unsafe fn call(number: usize, arguments: &Arguments) -> usize {
    let known = driver::function(number);
    let Some(function) = known.or_else(|| driver::refresh().then(|| driver::function(number))?)
    else {
        if let Some(side) = attachment::side() {
            side.count(Trouble::FunctionMissing);
        }
        return NOT_FOUND as usize;
    };
    let thread = this();
    let (is_recorded, is_held) = (attachment::is_on(), bandwidth::is_on());
    if ONLY_ASKS[number] || !(is_recorded || is_held) || thread.is_quiet() {
        // SAFETY: the caller's promise.
        return unsafe { driver::invoke(function, arguments) };
    }
    let call = Call { number, function, arguments, thread };
    let capturing = match FUNCTIONS[number].category {
        Category::Capture => Capturing::of(FUNCTIONS[number].base),
        _ => Capturing::Nothing,
    };
    capturing.before();
    // SAFETY: the caller's promise.
    let result = unsafe {
        match (is_held, is_recorded) {
            (true, true) => bandwidth::around(number, arguments, thread, || call.recorded()),
            (true, false) => bandwidth::around(number, arguments, thread, || call.followed()),
            (false, _) => call.recorded(),
        }
    };
    capturing.after(result as u32);
    result
}

/// A call of the program's.
struct Call<'a> {
    number: usize,
    function: Hook,
    arguments: &'a Arguments,
    thread: &'static Thread,
}

impl Call<'_> {
    /// Makes the call, without records of it.
    ///
    /// # Safety
    /// The arguments must be what the program passed to that function.
    unsafe fn followed(&self) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let result = driver::invoke(self.function, self.arguments);
            if result as u32 == SUCCESS {
                match FUNCTIONS[self.number].category {
                    Category::Resolver => resolve::replace(self.number, self.arguments),
                    Category::ImplicitSync => pinned::note(self.number, self.arguments),
                    _ => {}
                }
            }
            result
        }
    }

    /// Makes the call between two records.
    ///
    /// # Safety
    /// As for `followed`.
    unsafe fn recorded(&self) -> usize {
        let Call { number, function, arguments, thread } = *self;
        let category = FUNCTIONS[number].category;
        // SAFETY: the caller's promise, for all that looks at the arguments below.
        unsafe {
            let facts = facts(number, arguments);
            if matches!(category, Category::Launch) {
                kernel::name(thread, facts.detail);
            }
            let captured =
                may_be_captured(category) && graph::is_captured(thread, number, facts.subject);
            thread.record(clock::now(), Kind::Enter, facts.subject, facts.detail, number as u32);
            let result = driver::invoke(function, arguments);
            thread.record(
                clock::now(),
                Kind::Exit,
                facts.outcome(result as u32),
                u64::from(captured),
                result as u32,
            );
            if result as u32 == SUCCESS {
                after(number, category, arguments, thread);
            }
            result
        }
    }
}

fn may_be_captured(category: Category) -> bool {
    use Category::*;
    matches!(
        category,
        Launch | HostFn | GraphLaunch | Memcpy | Memset | MemStreamOrdered | Event | StreamMemop
    )
}

/// Applies the results of a successful call to the calls that follow.
///
/// # Safety
/// As for `call`, after it succeeded.
unsafe fn after(number: usize, category: Category, arguments: &Arguments, thread: &'static Thread) {
    // SAFETY: the caller's promise.
    unsafe {
        match category {
            Category::Resolver if FUNCTIONS[number].base == "cuInit" => {
                attachment::prepare();
                cupti::begin();
            }
            Category::Resolver => resolve::replace(number, arguments),
            Category::GraphBuild => graph::built(thread, number, arguments),
            Category::ImplicitSync => pinned::note(number, arguments),
            Category::KernelMeta => kernel::found(number, arguments),
            _ => {}
        }
    }
}

/// The hook of a number.
pub(super) fn hook(number: usize) -> Hook {
    HOOKS[number.min(COUNT - 1)]
}

impl Facts {
    /// The handle that came out, for calls that give one.
    ///
    /// # Safety
    /// The call was made with the arguments that these facts are of.
    unsafe fn outcome(&self, result: u32) -> u64 {
        if result != SUCCESS || self.handle_at == 0 {
            return 0;
        }
        // SAFETY: the driver has just stored a handle there.
        unsafe { (self.handle_at as *const u64).read_unaligned() }
    }
}
