/* Test double of libnccl and of the functions of libcudart that the worker calls, for host memory and ranks of one
 * machine. It is adversarial. Work on a side stream runs as late as the order of events permits (NCCL_DOUBLE=early: at
 * once). What a collective will write is filled with NaN when it is enqueued. A collective is refused if its stream has
 * not waited for all operations that the thread issued before, or if ranks are in different collectives.
 * Words in NCCL_DOUBLE break it: `hang` and `error` (collectives that never end, the second with an error that NCCL reports),
 * `wrong` (sums of zeros), `unordered` (compute does not wait for collectives), `stuck-init` and `stuck-abort` (calls that
 * never return).
 * Built by the tests: cc -O2 -shared -fPIC -pthread -o libnccl.so nccl_double.c */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SLOT (4u << 20)
#define RANKS 16
#define NOT_READY 600

typedef struct { char bytes[128]; } UniqueId;
typedef struct { _Atomic uint32_t arrived, phase; _Atomic uint64_t signature[RANKS]; } Board;
typedef struct { Board *board; char *slots; int ranks, rank; uint32_t phase; } Comm;
typedef struct Stream Stream;
typedef struct { _Atomic int done; uint64_t clock, at; Stream *on; } Event;
enum { GATHER, SCATTER, REDUCE, RECORD };
typedef struct { int kind, type; Comm *comm; const char *in; char *out; size_t count; Event *event; } Work;
struct Stream { pthread_mutex_t lock; Work *queue; size_t head, tail, capacity; uint64_t waited; };

/* Operations that this thread has issued on stream 0. */
static _Thread_local const uint64_t *clock_of_thread;
void double_set_clock(const uint64_t *clock) { clock_of_thread = clock; }
static uint64_t now(void) { return clock_of_thread ? *clock_of_thread : 0; }

static void refuse(const char *why) {
  fprintf(stderr, "nccl double: %s\n", why);
  abort();
}

static int is_set(const char *mode) {
  const char *value = getenv("NCCL_DOUBLE");
  return value && strstr(value, mode);
}

static size_t width(int type) { return type == 7 ? 4 : type == 8 ? 8 : type == 9 ? 2 : (refuse("unknown type"), 0); }

static void barrier(Comm *c) {
  uint32_t phase = c->phase++;
  if (atomic_fetch_add(&c->board->arrived, 1) + 1 == (uint32_t)c->ranks) {
    atomic_store(&c->board->arrived, 0);
    atomic_store(&c->board->phase, phase + 1);
    return;
  }
  time_t began = time(NULL);
  while (atomic_load(&c->board->phase) != phase + 1) {
    sched_yield();
    if (time(NULL) - began > 60) refuse("a rank did not take part in a collective");
  }
}

static float from_bf16(uint16_t v) {
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

static void sum(Comm *c, int type, size_t offset, size_t count, char *out) {
  for (size_t i = 0; i < count; i++) {
    double wide = 0;
    float narrow = 0;
    for (int r = 0; r < c->ranks; r++) {
      char *part = c->slots + (size_t)r * SLOT + offset;
      if (type == 7) narrow += ((float *)part)[i];
      else if (type == 9) narrow += from_bf16(((uint16_t *)part)[i]);
      else wide += ((double *)part)[i];
    }
    if (type == 7) ((float *)out)[i] = narrow;
    else if (type == 9) ((uint16_t *)out)[i] = to_bf16(narrow);
    else ((double *)out)[i] = wide;
  }
}

static void run(Work *w) {
  if (w->kind == RECORD) {
    atomic_store(&w->event->done, 1);
    return;
  }
  if (is_set("hang") || is_set("error")) for (;;) usleep(100000);
  Comm *c = w->comm;
  size_t bytes = width(w->type), most = SLOT / bytes / (w->kind == SCATTER ? c->ranks : 1);
  char *mine = c->slots + (size_t)c->rank * SLOT;
  atomic_store(&c->board->signature[c->rank], (uint64_t)w->kind | (uint64_t)w->type << 4 | (uint64_t)w->count << 8);
  barrier(c);
  for (int r = 0; r < c->ranks; r++)
    if (atomic_load(&c->board->signature[r]) != atomic_load(&c->board->signature[c->rank]))
      refuse("ranks are in different collectives");
  for (size_t at = 0; at < w->count; at += most) {
    size_t n = w->count - at < most ? w->count - at : most;
    if (w->kind == SCATTER)
      for (int r = 0; r < c->ranks; r++)
        memcpy(mine + (size_t)r * n * bytes, w->in + ((size_t)r * w->count + at) * bytes, n * bytes);
    else memcpy(mine, w->in + at * bytes, n * bytes);
    barrier(c);
    if (w->kind == GATHER)
      for (int r = 0; r < c->ranks; r++)
        memcpy(w->out + ((size_t)r * w->count + at) * bytes, c->slots + (size_t)r * SLOT, n * bytes);
    else if (is_set("wrong") && c->rank == 0) memset(w->out + at * bytes, 0, n * bytes);
    else sum(c, w->type, w->kind == SCATTER ? (size_t)c->rank * n * bytes : 0, n, w->out + at * bytes);
    barrier(c);
  }
}

/* Runs the work before `end`. Only the thread of a rank calls it; the watchdog only adds records of events. */
static void run_to(Stream *s, uint64_t end) {
  for (;;) {
    pthread_mutex_lock(&s->lock);
    if (s->head >= end) {
      pthread_mutex_unlock(&s->lock);
      return;
    }
    Work w = s->queue[s->head++];
    pthread_mutex_unlock(&s->lock);
    run(&w);
  }
}

static uint64_t push(Stream *s, Work w) {
  pthread_mutex_lock(&s->lock);
  if (s->tail == s->capacity) s->queue = realloc(s->queue, (s->capacity += 256) * sizeof(Work));
  s->queue[s->tail++] = w;
  uint64_t end = s->tail;
  pthread_mutex_unlock(&s->lock);
  return end;
}

static int enqueue(Stream *s, Work w) {
  if (!s) refuse("a collective is on the compute stream");
  if (s->waited != now()) refuse("a collective is enqueued, but its stream has not waited for all compute before it");
  size_t bytes = width(w.type), all = w.count * (w.kind == GATHER ? (size_t)w.comm->ranks : 1) * bytes;
  if (w.in >= w.out && w.in < w.out + all) {
    /* In place: all but what is sent. */
    size_t before = w.in - w.out, after = before + w.count * bytes;
    memset(w.out, 0xff, before);
    if (after < all) memset(w.out + after, 0xff, all - after);
  } else memset(w.out, 0xff, all);
  uint64_t end = push(s, w);
  if (is_set("early")) run_to(s, end);
  return 0;
}

int ncclGetVersion(int *version) { *version = 22907; return 0; }
const char *ncclGetErrorString(int error) { return error ? "error of the double" : "no error"; }
int ncclGetUniqueId(UniqueId *id) {
  memset(id, 0, sizeof *id);
  int file = open("/dev/urandom", O_RDONLY);
  uint64_t number = 0;
  if (read(file, &number, 8) != 8) return 2;
  close(file);
  snprintf(id->bytes, 127, "/nccl-double-%016llx", (unsigned long long)number);
  return 0;
}
int ncclCommInitRank(Comm **out, int ranks, UniqueId id, int rank) {
  if (is_set("stuck-init")) for (;;) usleep(100000);
  size_t bytes = 4096 + (size_t)ranks * SLOT;
  int file = shm_open(id.bytes, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ranks > RANKS || ftruncate(file, bytes)) return 2;
  char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return 2;
  Comm *c = calloc(1, sizeof *c);
  *c = (Comm){(Board *)memory, memory + 4096, ranks, rank, 0};
  barrier(c);
  if (rank == 0) shm_unlink(id.bytes);
  barrier(c);
  *out = c;
  return 0;
}
int ncclAllGather(const void *in, void *out, size_t n, int type, Comm *c, Stream *s) {
  return enqueue(s, (Work){GATHER, type, c, in, out, n, 0});
}
int ncclReduceScatter(const void *in, void *out, size_t n, int type, int op, Comm *c, Stream *s) {
  return op ? 4 : enqueue(s, (Work){SCATTER, type, c, in, out, n, 0});
}
int ncclAllReduce(const void *in, void *out, size_t n, int type, int op, Comm *c, Stream *s) {
  return op ? 4 : enqueue(s, (Work){REDUCE, type, c, in, out, n, 0});
}
int ncclCommGetAsyncError(Comm *c, int *error) { (void)c; *error = is_set("error") ? 6 : 0; return 0; }
int ncclCommAbort(Comm *c) {
  (void)c;
  if (is_set("stuck-abort")) for (;;) usleep(100000);
  return 0;
}
int ncclCommDestroy(Comm *c) { free(c); return 0; }

int cudaSetDeviceFlags(unsigned flags) { return flags == 4 ? 0 : 1; }
int cudaHostRegister(void *memory, size_t bytes, unsigned flags) { return !memory || !bytes || flags; }
int cudaGetLastError(void) { return 0; }
int cudaSetDevice(int device) { return device ? 101 : 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 8 : 0; return device ? 101 : 0; }
/* The streams of this thread's rank. */
static _Thread_local Stream *streams[4];
static _Thread_local int stream_count;
int cudaStreamCreateWithFlags(Stream **s, unsigned flags) {
  if (flags != 1) return 1;
  *s = calloc(1, sizeof(Stream));
  pthread_mutex_init(&(*s)->lock, 0);
  if (stream_count == 4) refuse("too many streams");
  streams[stream_count++] = *s;
  return 0;
}
int cudaDeviceSynchronize(void) {
  for (int i = 0; i < stream_count; i++) run_to(streams[i], streams[i]->tail);
  return 0;
}
int cudaMemGetInfo(size_t *free, size_t *total) {
  *free = *total = (size_t)1 << 40;
  return 0;
}
int cudaMemsetAsync(void *to, int value, size_t bytes, Stream *s) {
  (void)to, (void)value, (void)bytes;
  return s ? 0 : 1;
}
int cudaEventCreateWithFlags(Event **e, unsigned flags) {
  if (flags != 2) return 1;
  *e = calloc(1, sizeof(Event));
  (*e)->done = 1;
  return 0;
}
int cudaEventRecord(Event *e, Stream *s) {
  if (!s) {
    e->done = 1;
    e->on = 0;
    e->clock = now();
    return 0;
  }
  if (!e->done) run_to(e->on, e->at);
  e->done = 0;
  e->on = s;
  e->at = push(s, (Work){RECORD, 0, 0, 0, 0, 0, e});
  return 0;
}
/* Only the thread of a rank has streams, and makes their work progress. */
int cudaEventQuery(Event *e) {
  if (!atomic_load(&e->done) && e->on && stream_count && !is_set("hang") && !is_set("error")) run_to(e->on, e->at);
  return atomic_load(&e->done) ? 0 : NOT_READY;
}
int cudaStreamWaitEvent(Stream *s, Event *e, unsigned flags) {
  (void)flags;
  if (!s) {
    if (!e->done && !is_set("unordered")) run_to(e->on, e->at);
    return 0;
  }
  if (!e->on && e->clock > s->waited) s->waited = e->clock;
  return 0;
}
const char *cudaGetErrorString(int error) { return error ? "error of the double" : "no error"; }
