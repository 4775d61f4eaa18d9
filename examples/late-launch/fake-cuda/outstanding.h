/* What the GPU still has to do, for whoever follows it from outside, and random times of work. */
#ifndef OUTSTANDING_H
#define OUTSTANDING_H

#include "gpu.h"

/* Before the work can be seen by an engine. */
void outstanding_submitted(const struct work *work);

/* Before anybody can see that the work has ended, and when everybody can. */
void outstanding_ended(const struct work *work);
void outstanding_drained(void);

/* Makes work of the GPU's last for a random time. */
void outstanding_last(const struct work *work);

#endif
