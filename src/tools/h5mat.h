/* The commands of h5mat.  Each parses its own arguments and returns an exit code (error.h). */
#pragma once

struct error;

int h5mat_gen(int argc, char **argv, struct error *err);
int h5mat_info(int argc, char **argv, struct error *err);
int h5mat_diff(int argc, char **argv, struct error *err);
