/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a pull, for programs (JSON lines on standard output) and people (bars on a terminal),
 * reported by a thread of its own about ten times a second. */
#ifndef PROVIDER_PROGRESS_H
#define PROVIDER_PROGRESS_H

#include <pthread.h>
#include "options.h"
#include "source.h"

enum phase { PHASE_STARTED = 1, PHASE_RESOLVING, PHASE_RESOLVED, PHASE_CONFIG, PHASE_LAYERS, PHASE_ASSEMBLE, PHASE_PACK, PHASE_COMPLETE };

struct progress {
	enum progress_kind kind;
	bool terminal;
	pthread_t thread;
	bool running, stop;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum phase phase, shown;
	struct fetch *layers;      /* as long as they are set */
	uint32_t n_layers;
	char *title;               /* the reference, safe for a terminal */
	struct bars *bars;
	double deadline;           /* by now_seconds(), 0: none */
	void (*expired)(void *user);     /* called once */
	void (*interrupted)(void *user); /* called again and again */
	void (*unheard)(void *user, int error); /* a line could not be written: the same */
	int broken;                /* what writing one gave, or 0 */
	void *user;
};

int progress_start(struct progress *, const struct options *, struct edera_error *);
void progress_phase(struct progress *, enum phase);
/* The layers being fetched; NULL before they are freed. */
void progress_layers(struct progress *, struct fetch *layers, uint32_t n);
void progress_stop(struct progress *);
/* One JSON line on standard output, whole. Takes ownership. */
int progress_line(json_object *);

#endif
