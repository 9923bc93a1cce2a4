/* The exchange between nodes as the schedule defines it: the sender, receiver and number of each
 * message; and a model of all nodes, their slots, and links that carry one part at a time.  The
 * exchange terminates for any plan, at the rate that the planner expects. */
#include "plan_fixture.h"

#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"

enum { RANKS_MAX = 24, READ_STEPS = 2 };

/* A transfer that passes through a node. */
struct passage {
    struct transfer t;
    int64_t number_from, number_to; /* message numbers, counted per pair of ranks */
    struct passage *next;           /* at the node that receives it */
    int64_t ready;                  /* the step when it is available; -1: not yet */
    bool entered, sent, copied;
};

struct node {
    struct passage *passages; /* in sequence order */
    int64_t count, entered, copied, slots;
    int64_t sent_at, came_at; /* last steps in which its link was used */
};

struct world {
    const struct plan *plan;
    int nodes, ranks;
    struct node node[RANKS_MAX];
    int64_t sent[RANKS_MAX][RANKS_MAX],
        received[RANKS_MAX][RANKS_MAX]; /* message counts of pairs of ranks */
};

static int server(const struct world *w, int node, const struct transfer *t)
{
    return schedule_server(w->plan, w->ranks, node, t);
}

/* Sender and receiver number the messages independently. */
static void add_passage(struct world *w, int at, const struct transfer *t)
{
    struct node *node = &w->node[at];
    struct passage *p = &node->passages[node->count++];
    int here = server(w, at, t);
    *p = (struct passage){.t = *t, .ready = -1};
    if (t->from >= 0)
        p->number_from = w->received[server(w, t->from, t)][here]++;
    if (t->to >= 0)
        p->number_to = w->sent[here][server(w, t->to, t)]++;
}

static void walk(struct world *w, const struct problem *p, int at)
{
    struct node *node = &w->node[at];
    struct cursor cursor;
    struct transfer t;
    int64_t count = 0;
    cursor_start(&cursor, p, w->plan, at);
    while (cursor_next(&cursor, &t))
        count++;
    node->passages = calloc((size_t)count + 1, sizeof *node->passages);
    assert_non_null(node->passages);
    cursor_start(&cursor, p, w->plan, at);
    while (cursor_next(&cursor, &t))
        add_passage(w, at, &t);
    node->slots = w->plan->slots_in *
                  min_i64(w->plan->ranks_per_node, w->ranks - at * w->plan->ranks_per_node);
    node->sent_at = node->came_at = -1;
}

static bool is_same(const struct transfer *x, const struct transfer *y)
{
    return x->operand == y->operand && x->line == y->line && x->super == y->super &&
           x->slab == y->slab && x->part == y->part;
}

/* Matches both ends of every message, which must agree on order and number. */
static void connect(struct world *w, int at)
{
    int64_t reached[RANKS_MAX] = {0};
    for (struct passage *p = w->node[at].passages; p < w->node[at].passages + w->node[at].count;
         p++) {
        if (p->t.to < 0)
            continue;
        const struct node *to = &w->node[p->t.to];
        int64_t i = reached[p->t.to];
        while (i < to->count && !is_same(&to->passages[i].t, &p->t))
            i++;
        assert_true(p->t.to != at && i < to->count);
        p->next = &to->passages[i];
        reached[p->t.to] = i + 1;
        assert_int_equal(p->next->t.from, at);
        assert_int_equal(p->next->number_from, p->number_to);
        assert_true(block_equal(&p->next->t.block, &p->t.block));
    }
}

static void make_world(struct world *w, const struct problem *p, const struct machine *m,
                       const struct plan *plan)
{
    *w = (struct world){.plan = plan, .ranks = m->ranks};
    w->nodes = (int)ceil_div(m->ranks, plan->ranks_per_node);
    for (int i = 0; i < w->nodes; i++)
        walk(w, p, i);
    for (int i = 0; i < w->nodes; i++)
        connect(w, i);
    for (int i = 0; i < w->ranks; i++)
        for (int j = 0; j < w->ranks; j++)
            assert_int_equal(w->sent[i][j], w->received[i][j]);
}

static void free_world(struct world *w)
{
    for (int i = 0; i < w->nodes; i++)
        free(w->node[i].passages);
}

static bool is_free(const struct passage *p)
{
    return p->copied && (p->sent || p->t.to < 0);
}

/* Enters as many transfers as slots are free, starts reading them, and copies available ones in
 * order. */
static void node_step(struct node *node, int64_t step)
{
    struct passage *all = node->passages;
    while (node->entered < node->count &&
           (node->entered < node->slots || is_free(&all[node->entered - node->slots]))) {
        struct passage *p = &all[node->entered++];
        p->entered = true;
        if (p->t.from < 0)
            p->ready = step + READ_STEPS;
    }
    while (node->copied < node->entered && all[node->copied].ready >= 0 &&
           all[node->copied].ready <= step)
        all[node->copied++].copied = true;
}

/* Sends the earliest part that is ready. */
static void link_step(struct world *w, struct node *node, int64_t step)
{
    for (int64_t i = max_i64(0, node->entered - node->slots); i < node->entered; i++) {
        struct passage *p = &node->passages[i];
        bool is_there = p->ready >= 0 && p->ready <= step;
        if (!is_there || p->sent || p->t.to < 0 || !p->next->entered ||
            w->node[p->t.to].came_at == step)
            continue;
        p->sent = true;
        p->next->ready = step + 1;
        w->node[p->t.to].came_at = step;
        return;
    }
}

/* Returns the steps until all nodes have everything.  In each step a link carries one part in each
 * direction. */
static int64_t run_world(struct world *w, int64_t most)
{
    int64_t step = 0;
    for (bool all = false; !all; step++) {
        if (step > most)
            fail_msg("not through after %lld steps", (long long)step);
        all = true;
        for (int i = 0; i < w->nodes; i++) {
            node_step(&w->node[i], step);
            all = all && w->node[i].copied == w->node[i].count;
        }
        for (int i = 0; i < w->nodes; i++)
            link_step(w, &w->node[(i + step) % w->nodes], step);
    }
    return step;
}

static int64_t count_all(const struct world *w)
{
    int64_t count = 0;
    for (int i = 0; i < w->nodes; i++)
        count += w->node[i].count;
    return count;
}

/* The plans have nodes along grid rows and columns with several or unequal numbers of ranks, panels
 * that only some nodes cache, ranks without a tile, and few slots. */
static void test_any_plan_ends(void **state)
{
    (void)state;
    static struct world w;
    const int count = tries(5000);
    int done = 0, sending = 0;
    for (int trial = 0; trial < count; trial++) {
        struct problem p = make_problem(1 + random_below(150), 1 + random_below(150),
                                        random_below(200), (int)random_below(256));
        size_t host = (size_t)1 << (22 + random_below(4));
        struct machine m = make_machine(2 + (int)random_below(RANKS_MAX - 2),
                                        (size_t)1 << (12 + random_below(6)), host, random_below(2));
        m.ranks_per_node = 1 + (int)random_below(min_i64(m.ranks, 5));
        struct plan_request request = {.algorithm = ALGORITHM_CPU};
        request.tile_rows = 1 + random_below(min_i64(p.m, 40));
        request.tile_cols = 1 + random_below(min_i64(p.n, 40));
        request.slab = 1 + random_below(60);
        struct plan plan;
        struct error err = {0};
        if (plan_make(&p, &m, &request, &plan, &err))
            continue;
        plan.slots_in = 1 + (int)random_below(2 * plan.slots_in);
        for (int i = OPERAND_A; i <= OPERAND_B; i++)
            plan.turn[i] = 1 + random_below(5);
        make_world(&w, &p, &m, &plan);
        run_world(&w, 10 * READ_STEPS * (count_all(&w) + 1));
        free_world(&w);
        done++;
        sending += plan.moves.sent_bytes > 0;
    }
    assert_true(done > count * 3 / 10 && sending > count / 12);
}

/* B is sent to all nodes, and each node has its own rows of A.  The number of steps matches the
 * plan, from the fewest possible slots to as many as the planner uses. */
static void test_the_rate_that_is_planned(void **state)
{
    (void)state;
    static struct world w;
    for (int nodes = 2; nodes <= RANKS_MAX; nodes += 1 + nodes / (brief() ? 1 : 4))
        for (int slots = 4; slots <= 4 * nodes + 8; slots += 1 + slots / 3) {
            const int64_t parts = 32, slabs = 40;
            struct problem p = make_problem(nodes, 512, 64 * slabs, 1);
            struct machine m = make_machine(nodes, 1 << 24, 1 << 28, true);
            struct plan_request request = {.algorithm = ALGORITHM_CPU,
                                           .grid_rows = nodes,
                                           .grid_cols = 1,
                                           .tile_rows = 1,
                                           .tile_cols = 512,
                                           .slab = 64};
            struct plan plan;
            struct error err = {0};
            m.ranks_per_node = 1;
            assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
            plan.slots_in = slots;
            plan.slot_bytes = 8 * 512 * 64 / parts;
            plan_set_turns(&p, &plan);
            make_world(&w, &p, &m, &plan);
            assert_int_equal(w.node[0].count, (parts + 1) * slabs);
            double steps = (double)run_world(&w, 100 * w.node[0].count);
            free_world(&w);
            double least = (double)(parts * slabs) * (nodes - 1) / nodes;
            double rate = least / (steps - nodes - READ_STEPS);
            double planned = plan_turn_rate(&p, &plan, OPERAND_B);
            if (rate < (slots < 8 ? 0.6 : slots < 4 * nodes ? 0.8 : 0.95) * planned)
                fail_msg("%d nodes, %d slots: %.2f for %.2f", nodes, slots, rate, planned);
        }
}

/* A part of B reaches the last of four nodes by three hops; what comes before hides them where all
 * nodes can have a part on its way.  Nobody sends A. */
static void test_hops(void **state)
{
    (void)state;
    struct problem p = make_problem(4, 512, 640, 1);
    struct machine m = make_machine(4, 1 << 24, 1 << 28, true);
    struct plan_request request = {.algorithm = ALGORITHM_CPU,
                                   .grid_rows = 4,
                                   .grid_cols = 1,
                                   .tile_rows = 1,
                                   .tile_cols = 512,
                                   .slab = 64};
    struct plan plan;
    struct error err = {0};
    m.ranks_per_node = 1;
    m.network_bytes_per_s = 1e6;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    plan.slot_bytes = 8000;
    plan.slots_in = 4;
    assert_true(plan_hops_seconds(&p, &m, &plan, OPERAND_A, 0) == 0);
    assert_true(fabs(plan_hops_seconds(&p, &m, &plan, OPERAND_B, 1) - 3 * 8e-3) < 1e-9);
    plan.slots_in = 1000;
    assert_true(fabs(plan_hops_seconds(&p, &m, &plan, OPERAND_B, 0.004) - 3 * 8e-3 + 0.004) < 1e-9);
    assert_true(plan_hops_seconds(&p, &m, &plan, OPERAND_B, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_plan_ends),
        cmocka_unit_test(test_hops),
        cmocka_unit_test(test_the_rate_that_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
