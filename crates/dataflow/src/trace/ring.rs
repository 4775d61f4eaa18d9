//! A bounded memory of events: each has one writer, and the oldest events go first.

use crate::trace::{Event, Point};

/// Events in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ring {
    events: Vec<Event>,
    capacity: usize,
    written: u64,
}

impl Ring {
    /// A ring for `capacity` events, whose memory is reserved at once and touched when it is used.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn new(capacity: usize) -> Ring {
        assert!(capacity > 0, "a ring of no event");
        Ring { events: Vec::with_capacity(capacity), capacity, written: 0 }
    }

    /// Writes an event. Allocates nothing.
    pub fn write(&mut self, at_ns: u64, job: u64, point: Point) {
        let event = Event { at_ns, job, point };
        if self.events.len() < self.capacity {
            self.events.push(event);
        } else {
            let place = self.written % self.capacity as u64;
            self.events[place as usize] = event;
        }
        self.written += 1;
    }

    /// Returns the number of events that were lost because the ring was full.
    pub fn lost(&self) -> u64 {
        self.written - self.events.len() as u64
    }

    /// All events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> + Clone {
        let oldest =
            if self.lost() > 0 { (self.written % self.capacity as u64) as usize } else { 0 };
        self.events[oldest..].iter().chain(&self.events[..oldest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_ring_keeps_the_newest_in_order_and_counts_the_rest() {
        let mut ring = Ring::new(3);
        for at_ns in 0..8 {
            ring.write(at_ns, 1, Point::Paused);
        }
        let times: Vec<u64> = ring.events().map(|event| event.at_ns).collect();
        assert_eq!((times, ring.lost()), (vec![5, 6, 7], 5));
    }

    #[test]
    fn ring_with_room_keeps_all() {
        let mut ring = Ring::new(3);
        ring.write(4, 1, Point::Resumed);
        ring.write(5, 1, Point::Paused);
        assert_eq!(ring.events().count(), 2);
        assert_eq!(ring.lost(), 0);
    }
}
