/* SPDX-License-Identifier: Apache-2.0 */
/* How far a pull or a launch is: bars on a terminal, a line a phase, JSON lines, or nothing. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/cli.h"

enum progress_mode { PROGRESS_NONE, PROGRESS_BARS, PROGRESS_LINES, PROGRESS_JSON };

struct progress;

/* Bars and lines go to stderr, JSON to stdout. title: "docker.io/library/alpine:3.20" */
struct progress *progress_new(enum progress_mode, const char *title);
void progress_update(struct progress *, const Protect__Control__V1__OciImageProgress *);
/* For work without numbers: "waiting for the zone". Bars only. */
void progress_say(struct progress *, const char *what);
void progress_tick(struct progress *); /* redraws; several times a second */
void progress_free(struct progress *); /* takes away what was drawn */

enum progress_mode progress_auto(enum progress_mode otherwise); /* bars where stderr is a terminal */

#endif
