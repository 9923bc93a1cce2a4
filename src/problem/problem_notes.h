/* What a user may not expect of the elements that are multiplied. */
#pragma once

#include "problem.h"

enum { NOTES_MAX = 4, NOTE_TEXT = 160 };

/* Write the notes on an operand that is read, each a clause; returns their number. */
int problem_notes(const struct problem *problem, enum operand operand,
                  char notes[NOTES_MAX][NOTE_TEXT]);
