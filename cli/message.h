/* SPDX-License-Identifier: Apache-2.0 */
/* Building messages that own all they hold, so that _message_ frees them whole. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include "cli/command.h"
#include "protect/control/v1/control.pb-c.h"

void *message_new(const ProtobufCMessageDescriptor *);
void message_set(char **field, const char *value); /* NULL: leaves it */
/* A new element at the end of a repeated field; `field` is the address of the array pointer. */
void *message_add(void *field, size_t *n, const ProtobufCMessageDescriptor *);
void message_add_string(char ***field, size_t *n, const char *value);

/* -e K=V; a K alone takes the value of our own environment. CLI_USAGE after saying what is wrong, else 0. */
int message_add_environment(Protect__Control__V1__ProcessSpec *, const struct strings *);
/* --annotation K=V, likewise but without the environment. */
int message_add_annotations(Protect__Control__V1__AnnotationSpec ***field, size_t *n, const struct strings *);
/* "1000", "web", "1000:1000" */
void message_set_user(Protect__Control__V1__ProcessSpec *, const char *user);

#endif
