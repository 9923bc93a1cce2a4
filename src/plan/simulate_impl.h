/* What is simulated: every resource and what waits for it. */
#pragma once

#include "simulate.h"

enum {
    RING_STEPS = 64, /* that reading is ahead, at most */
};

/* From when something is there to when all of it is. */
struct interval {
    double start, end;
};

/* One resource. */
struct server {
    double free, busy, amount;
};

/* A panel of a grid row of A or of a grid column of B in one super-block, for all nodes. */
struct panel_state {
    int readers;          /* nodes that need it; each reads its part of what no node keeps */
    int fetchers;         /* those of them that do not have what is kept of it */
    struct interval sent; /* by all of them in this step; without others, read */
};

/* A panel as one node needs it. */
struct need {
    enum operand operand;
    int panel;
    int64_t extent; /* rows of A or columns of B; 0: not needed now */
    bool again;     /* the node has what is kept of it */
    struct interval arrived;
};

struct rank_state {
    struct block tile, before;
    int need[2]; /* A's and B's among those of its node */
    bool copies[2];
    struct server in, gemm, out;
    struct interval product;  /* the newest */
    double gate;              /* when a device panel is free again */
    struct interval draining; /* the newest tile, from the device */
    double left;              /* when all of the tile before had left */
    double written;           /* when the newest tile is in the file */
};

/* What a step put into a node's ring, and when all of it had been copied to devices. */
struct ringed {
    double bytes, copied;
};

struct node_state {
    int first, ranks, needs;
    struct need *need; /* of the simulation's */
    struct server link_in, send, receive, cache, link_out;
    double step_bytes, ready; /* of this step; when the ring has room for it */
    struct ringed ring[RING_STEPS];
    int64_t oldest, newest; /* of the steps in the ring */
    double held;            /* their bytes */
};

/* Slabs of k that go together. */
struct sim_step {
    int64_t super, first, slabs, k;
    int64_t k_kept[2]; /* of k, what the host keeps of A's panels, of B's */
    bool last;         /* of the tile */
};

struct sim {
    const struct problem *p;
    const struct machine *machine;
    const struct plan_request *request;
    const struct plan *plan;
    double element[OPERAND_COUNT]; /* bytes that the files have for one of op(A), of op(B); of C */
    double ring_bytes, read_rate[OPERAND_COUNT];
    double send_rate[2]; /* of A's panels, of B's */
    struct server disk_read, disk_write;
    struct interval writing;    /* to memory: from the first to the last of what goes on now */
    double lost;                /* seconds of disk_read, to what was written in the meantime */
    double due;                 /* of that, to this step at least */
    double round;               /* when disk_read gets to this step */
    struct panel_state *panels; /* of grid rows, then of grid columns */
    struct need *needs;
    struct node_state *nodes;
    struct rank_state *ranks;
    int rank_count, node_count;
    int64_t slabs_a_step, supers; /* that are simulated */
};

/* Place the ranks and count their panels.  False without the memory for that; simulate_close is due
 * in either case. */
bool simulate_open(struct sim *sim);
void simulate_close(struct sim *sim);

/* Go on to a super-block: its tiles, and who needs which panels. */
void simulate_enter(struct sim *sim, int64_t super);
