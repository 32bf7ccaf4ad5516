/* SPDX-License-Identifier: Apache-2.0 */
/* An image's configuration from a registry, up to the container made of it. */
#include "container.h"
#include "image_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Edera__Agent__V1__CreateWorkloadRequest q = EDERA__AGENT__V1__CREATE_WORKLOAD_REQUEST__INIT;
	struct user user = { .home = "/" };
	struct image_config image;
	struct container_input in = { .q = &q, .image = &image, .user = &user, .dir = "/d", .hostname = "h", .cgroups = true };
	struct edera_error err = EDERA_ERROR_INIT;
	json_object *o;

	q.id = (char *)"w";
	if (image_config_parse(data, size, &image, &err))
		return 0;
	o = container_config(&in, &err);
	if (o)
		json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	json_object_put(o);
	image_config_free(&image);
	return 0;
}
