/* The policy of simulators/serving in C, for one or two engines with iteration times in closed form.

   Same rules, same order of floating-point sums; no records.  The tests hold it to the request-level simulator request
   by request; runs of millions of requests, which intervals of 5 % near saturation need, take seconds here. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct { double t0, tw, tc, tkv, tssm, tat; } Coefficients;

typedef struct {
    long prompt, output, target, done, emitted, admission, joined, ticket, place;
    int where, preempted; /* where: 0 waiting, 1 prefilling, 2 decoding, 3 handed over */
} Sequence;

typedef struct { long first, second, request; } Key;      /* of the waiting queue */
typedef struct { long step, ticket, request; } End;       /* of the last steps of decoders */

typedef struct {
    Coefficients e;
    int running, decodes;
    long chunks, *chunk_of, *chunk_tokens;                 /* planned prompts */
    double end, left, since, speed, usage;
} Engine;

typedef struct {
    long n, max_batch, budget, block;
    int policy, sjf, shared, pools;                        /* policy: 0 chunked, 1 prefill first, 2 two pools */
    double capacity, state;
    Sequence *s;
    Key *waiting; long waiting_count;
    End *ends; long ends_count;
    long *prefilling, prefilling_count, prefilling_pool_size;
    long *decoding, decoding_count;
    long *handed, handed_head, handed_count;               /* a ring of size n + 1 */
    long due[64], step, context, tickets, admissions;
    long blocks, states, preemptions;
    Engine engine[2];
    double now;
    double *first, *last;
    long *preempted;
} Server;

static int key_less(Key a, Key b) {
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
    return a.request < b.request;
}

static void waiting_push(Server *v, long i) {
    Sequence *q = &v->s[i];
    Key key = {1, v->sjf ? q->prompt : 0, i};
    if (q->preempted) { key.first = 0; key.second = -v->preemptions; } /* to the head */
    long at = v->waiting_count++;
    while (at && key_less(key, v->waiting[(at - 1) / 2])) { v->waiting[at] = v->waiting[(at - 1) / 2]; at = (at - 1) / 2; }
    v->waiting[at] = key;
    q->where = 0;
}

static long waiting_pop(Server *v) {
    long result = v->waiting[0].request, at = 0;
    Key key = v->waiting[--v->waiting_count];
    for (;;) {
        long child = 2 * at + 1;
        if (child >= v->waiting_count) break;
        if (child + 1 < v->waiting_count && key_less(v->waiting[child + 1], v->waiting[child])) child++;
        if (!key_less(v->waiting[child], key)) break;
        v->waiting[at] = v->waiting[child];
        at = child;
    }
    v->waiting[at] = key;
    return result;
}

static int end_less(End a, End b) { return a.step != b.step ? a.step < b.step : a.ticket < b.ticket; }

static void ends_push(Server *v, End key) {
    long at = v->ends_count++;
    while (at && end_less(key, v->ends[(at - 1) / 2])) { v->ends[at] = v->ends[(at - 1) / 2]; at = (at - 1) / 2; }
    v->ends[at] = key;
}

static End ends_pop(Server *v) {
    End result = v->ends[0], key = v->ends[--v->ends_count];
    long at = 0;
    for (;;) {
        long child = 2 * at + 1;
        if (child >= v->ends_count) break;
        if (child + 1 < v->ends_count && end_less(v->ends[child + 1], v->ends[child])) child++;
        if (!end_less(v->ends[child], key)) break;
        v->ends[at] = v->ends[child];
        at = child;
    }
    v->ends[at] = key;
    return result;
}

/* -- memory ---------------------------------------------------------------------------------------------------- */

static long blocks_of(Server *v, long tokens) { return (tokens + v->block - 1) / v->block; }
static double used(Server *v) { return v->blocks * (double)v->block + v->states * v->state; }
static long free_blocks(Server *v) { return (long)floor((v->capacity - used(v)) / (double)v->block); }

static int can_admit(Server *v, long reserved) {
    double needed = blocks_of(v, v->s[v->waiting[0].request].target) * (double)v->block + v->state;
    return used(v) + (needed + reserved * (double)v->block) <= v->capacity;
}

static void release(Server *v, long i) { v->blocks -= blocks_of(v, v->s[i].target); v->states--; }

static long admit(Server *v) {
    long i = waiting_pop(v);
    Sequence *q = &v->s[i];
    v->blocks += blocks_of(v, q->target);
    v->states++;
    q->admission = ++v->admissions;
    q->where = 1;
    v->prefilling[v->prefilling_count++] = i;
    return i;
}

/* -- decoders -------------------------------------------------------------------------------------------------- */

static long modulo(long a, long b) { long r = a % b; return r < 0 ? r + b : r; }
static long *due_of(Server *v, Sequence *q) { return &v->due[modulo(q->joined - q->target, v->block)]; }
static long blocks_due(Server *v) { return v->due[v->step % v->block]; }

static void join(Server *v, long i) {
    Sequence *q = &v->s[i];
    q->joined = v->step;
    q->where = 2;
    q->place = v->decoding_count;
    v->decoding[v->decoding_count++] = i;
    v->context += q->target + 1;
    (*due_of(v, q))++;
    q->ticket = ++v->tickets;
    End key = {v->step + q->output - q->emitted, q->ticket, i};
    ends_push(v, key);
}

static void leave(Server *v, long i) {
    Sequence *q = &v->s[i];
    long steps = v->step - q->joined, other = v->decoding[--v->decoding_count];
    v->context -= q->target + 1 + steps;
    (*due_of(v, q))--;
    v->decoding[q->place] = other;
    v->s[other].place = q->place;
    q->ticket = 0;
    q->emitted += steps;
    q->target += steps;
    q->done = q->target;
}

static void complete(Server *v, long i) {
    v->last[i] = v->now;
    v->preempted[i] = v->s[i].preempted;
    release(v, i);
}

static void drop_prefilling(Server *v, long i) {
    long at = 0;
    while (v->prefilling[at] != i) at++;
    memmove(v->prefilling + at, v->prefilling + at + 1, (v->prefilling_count - at - 1) * sizeof(long));
    v->prefilling_count--;
}

static void drop_handed(Server *v, long i) {
    long size = v->n + 1, at = 0;
    while (v->handed[(v->handed_head + at) % size] != i) at++;
    for (; at + 1 < v->handed_count; at++)
        v->handed[(v->handed_head + at) % size] = v->handed[(v->handed_head + at + 1) % size];
    v->handed_count--;
}

static void preempt(Server *v, long i) {
    Sequence *q = &v->s[i];
    if (q->where == 3) drop_handed(v, i);
    else if (q->where == 2) leave(v, i);
    else drop_prefilling(v, i);
    release(v, i);
    q->preempted++;
    v->preemptions++;
    q->target = q->prompt + q->emitted;
    q->done = 0;
    waiting_push(v, i);
}

/* 1: the next step fits; 0: wait for the other pool; -1: never. */
static int make_room(Server *v, int mine) {
    while (free_blocks(v) < blocks_due(v)) {
        long count = v->handed_count + v->decoding_count, newest = -1, size = v->n + 1;
        for (long k = 0; k < v->handed_count; k++) {
            long i = v->handed[(v->handed_head + k) % size];
            if (newest < 0 || v->s[i].admission > v->s[newest].admission) newest = i;
        }
        for (long k = 0; k < v->decoding_count; k++) {
            long i = v->decoding[k];
            if (newest < 0 || v->s[i].admission > v->s[newest].admission) newest = i;
        }
        if (!v->engine[0].running) {
            count += v->prefilling_count;
            for (long k = 0; k < v->prefilling_count; k++) {
                long i = v->prefilling[k];
                if (newest < 0 || v->s[i].admission > v->s[newest].admission) newest = i;
            }
        }
        if (count > 1) preempt(v, newest);
        else if (v->pools == 2 && v->engine[1 - mine].running) return 0;
        else return -1;
    }
    return v->decoding_count > 0;
}

/* -- plans ----------------------------------------------------------------------------------------------------- */

static void add_chunk(Engine *g, long i, long tokens) {
    g->chunk_of[g->chunks] = i;
    g->chunk_tokens[g->chunks++] = tokens;
}

static long lesser(long a, long b) { return a < b ? a : b; }

static long continue_prompts(Server *v, Engine *g, long left) {
    for (long k = 0; k < v->prefilling_count && left > 0; k++) {
        Sequence *q = &v->s[v->prefilling[k]];
        long tokens = lesser(left, q->target - q->done);
        add_chunk(g, v->prefilling[k], tokens);
        left -= tokens;
    }
    return left;
}

static void admit_chunks(Server *v, Engine *g, long left, long slots, long reserved) {
    while (left > 0 && v->waiting_count && v->prefilling_count + (v->pools == 2 ? 0 : v->decoding_count) < slots
           && can_admit(v, reserved)) {
        long i = admit(v), tokens = lesser(left, v->s[i].target);
        add_chunk(g, i, tokens);
        left -= tokens;
    }
}

/* 1: an iteration is planned; 0: nothing to do; -1: broken. */
static int plan(Server *v, int index) {
    Engine *g = &v->engine[index];
    int decodes = 0;
    g->chunks = 0;
    if (v->policy == 0) {
        long before = v->preemptions;
        if (v->decoding_count) {
            int room = make_room(v, index);
            if (room < 0) return -1;
            if (!room) return 0;
            decodes = 1;
        }
        long left = continue_prompts(v, g, v->budget - v->decoding_count);
        if (v->preemptions == before) admit_chunks(v, g, left, v->max_batch, blocks_due(v));
    } else if (v->policy == 1) {
        long left = v->budget;
        while (v->waiting_count && v->prefilling_count + v->decoding_count < v->max_batch && can_admit(v, 0)) {
            long tokens = v->s[v->waiting[0].request].target;
            if (g->chunks && tokens > left) break;
            add_chunk(g, admit(v), tokens);
            left -= tokens;
        }
    } else if (index == 0) {
        if (v->handed_count >= v->max_batch) return 0;
        admit_chunks(v, g, continue_prompts(v, g, v->budget), v->n + 1, 0);
    }
    if (!g->chunks && (v->policy == 1 || index == 1)) {
        while (index == 1 && v->handed_count && v->decoding_count < v->max_batch) {
            long i = v->handed[v->handed_head];
            v->handed_head = (v->handed_head + 1) % (v->n + 1);
            v->handed_count--;
            join(v, i);
        }
        if (!v->decoding_count) return 0;
        int room = make_room(v, index);
        if (room < 0) return -1;
        if (!room) return 0;
        decodes = 1;
    }
    if (!decodes && !g->chunks) return 0;
    g->decodes = decodes;
    return 1;
}

static void begin(Server *v, Engine *g) {
    if (g->decodes) v->blocks += blocks_due(v);
    long tokens = 0, decoders = g->decodes ? v->decoding_count : 0;
    double pairs = 0.0;
    for (long k = 0; k < g->chunks; k++) {
        long chunk = g->chunk_tokens[k];
        pairs += chunk * (v->s[g->chunk_of[k]].done + chunk / 2.0);
        tokens += chunk;
    }
    Coefficients e = g->e;
    double work = (tokens + decoders) * e.tc, context = g->decodes ? v->context : 0;
    double reads = context * e.tkv + (g->chunks + decoders) * e.tssm;
    double time = e.t0 + (work > e.tw ? work : e.tw) + reads + pairs * e.tat;
    double memory = (e.tw + context * e.tkv + (g->chunks + decoders) * e.tssm) / time;
    g->usage = memory < 1.0 ? memory : 1.0;
    g->running = 1;
    g->left = time;
    g->since = v->now;
    g->speed = 1.0;
    g->end = v->now + time;
}

static void prefilled(Server *v, long i) {
    Sequence *q = &v->s[i];
    if (!q->emitted) v->first[i] = v->now;
    q->emitted++;
    if (q->emitted == q->output) complete(v, i);
    else if (v->pools == 1) join(v, i);
    else {
        q->where = 3;
        v->handed[(v->handed_head + v->handed_count++) % (v->n + 1)] = i;
    }
}

static long finish(Server *v, Engine *g) {
    long ended = 0;
    g->running = 0;
    if (g->decodes) {
        v->step++;
        v->context += v->decoding_count;
        while (v->ends_count && v->ends[0].step <= v->step) {
            End key = ends_pop(v);
            if (key.ticket != v->s[key.request].ticket || v->s[key.request].where != 2) continue;
            leave(v, key.request);
            complete(v, key.request);
            v->s[key.request].where = 4;
            ended++;
        }
    }
    for (long k = 0; k < g->chunks; k++) {
        long i = g->chunk_of[k];
        v->s[i].done += g->chunk_tokens[k];
        if (v->s[i].done == v->s[i].target) {
            drop_prefilling(v, i);
            prefilled(v, i);
            if (v->s[i].where == 1) { v->s[i].where = 4; ended++; }
        }
    }
    return ended;
}

static void set_speed(Engine *g, double speed, double now) {
    if (speed == g->speed) return;
    double left = g->left - (now - g->since) * g->speed;
    g->left = left > 0.0 ? left : 0.0;
    g->since = now;
    g->speed = speed;
    g->end = now + g->left / speed;
}

static void rebalance(Server *v) {
    Engine *a = &v->engine[0], *b = &v->engine[1];
    double one = 1.0, two = 1.0;
    if (v->pools < 2 || !v->shared) return;
    if (a->running && b->running && a->usage + b->usage > 1.0 + 1e-12) {
        for (int pass = 0; pass < 200; pass++) {
            double new_one = fmin(1.0, fmax(0.5, 1.0 - b->usage * two) / a->usage);
            double new_two = fmin(1.0, fmax(0.5, 1.0 - a->usage * new_one) / b->usage);
            int done = fabs(new_one - one) < 1e-12 && fabs(new_two - two) < 1e-12;
            one = new_one;
            two = new_two;
            if (done) break;
        }
        double excess = fmax(1.0, a->usage * one + b->usage * two);
        one /= excess;
        two /= excess;
    }
    if (a->running) set_speed(a, one, v->now);
    if (b->running) set_speed(b, two, v->now);
}

/* Returns 0, 1 where memory never suffices, 2 where nothing happens any more.  Dates of each request in `first` and
   `last`, preemptions in `preempted`; sizes and limits as in the package; coefficients in the order of `Coefficients`. */
int serve(int policy, int sjf, int shared, long n, const double *arrival, const long *prompt, const long *output,
          long max_batch, long budget, double capacity, double state, long block, const double *serve_engine,
          const double *decode_engine, double *first, double *last, long *preempted) {
    Server v;
    memset(&v, 0, sizeof v);
    v.n = n; v.max_batch = max_batch; v.budget = budget; v.block = block;
    v.policy = policy; v.sjf = sjf; v.shared = shared; v.pools = policy == 2 ? 2 : 1;
    v.capacity = capacity; v.state = state;
    v.first = first; v.last = last; v.preempted = preempted;
    v.s = calloc(n, sizeof(Sequence));
    v.waiting = malloc((n + 1) * sizeof(Key));
    v.ends = malloc((8 * n + 1024) * sizeof(End));
    v.prefilling = malloc((n + 1) * sizeof(long));
    v.decoding = malloc((n + 1) * sizeof(long));
    v.handed = malloc((n + 1) * sizeof(long));
    for (int k = 0; k < 2; k++) {
        memcpy(&v.engine[k].e, k ? decode_engine : serve_engine, sizeof(Coefficients));
        v.engine[k].chunk_of = malloc((n + 1) * sizeof(long));
        v.engine[k].chunk_tokens = malloc((n + 1) * sizeof(long));
    }
    long come = 0, left = n;
    int result = 0;
    while (left && !result) {
        double next = come < n ? arrival[come] : INFINITY;
        int which = -1;
        for (int k = 0; k < v.pools; k++)
            if (v.engine[k].running && v.engine[k].end <= next) { next = v.engine[k].end; which = k; }
        if (next == INFINITY) { result = 2; break; }
        v.now = next;
        if (which < 0) {
            while (come < n && arrival[come] <= v.now) {
                Sequence *q = &v.s[come];
                q->prompt = q->target = prompt[come];
                q->output = output[come];
                waiting_push(&v, come++);
            }
        } else {
            left -= finish(&v, &v.engine[which]);
        }
        /* The engine that ended an iteration plans first, then the other; each again while the other changes things. */
        int order = which < 0 ? 0 : which, changed = 1;
        while (changed && !result) {
            changed = 0;
            for (int k = 0; k < v.pools && !result; k++) {
                int index = v.pools == 1 ? 0 : (order + k) % 2;
                if (v.engine[index].running) continue;
                if (which < 0 && index == 1) continue; /* arrivals wake no decode engine */
                long handed = v.handed_count, before = v.preemptions;
                int found = plan(&v, index);
                if (found < 0) result = 1;
                if (found > 0) begin(&v, &v.engine[index]);
                if (found > 0 || v.handed_count != handed || v.preemptions != before) changed = 1;
            }
            if (v.pools == 1) break;
        }
        rebalance(&v);
        if (v.ends_count > 8 * n) result = 3;
    }
    free(v.s); free(v.waiting); free(v.ends); free(v.prefilling); free(v.decoding); free(v.handed);
    for (int k = 0; k < 2; k++) { free(v.engine[k].chunk_of); free(v.engine[k].chunk_tokens); }
    return result;
}
