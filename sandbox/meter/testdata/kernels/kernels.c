// The C kernels of the meter's tests and benchmarks: each takes its size and
// returns a number that depends on all of its work. build.sh compiles this file
// twice, plain and with SIMD, and the results are kept beside it, so that the tests
// need no C compiler.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name)))

static uint8_t buffer[1 << 16];

static uint32_t next(uint32_t x) { return x * 1664525 + 1013904223; }

static void mix(uint32_t h[8], const uint8_t *p) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; i++) w[i] = w[i - 16] + (w[i - 15] >> 7 ^ w[i - 15] << 14) + w[i - 7] + (w[i - 2] >> 17 ^ w[i - 2] << 13);
  for (int i = 0; i < 64; i++) {
    uint32_t t = h[7] + (h[4] >> 6 ^ h[4] << 21) + ((h[4] & h[5]) ^ (~h[4] & h[6])) + w[i];
    memmove(h + 1, h, 7 * sizeof *h);
    h[0] = t + ((h[1] & h[2]) ^ (h[1] & h[3]));
    h[4] += t;
  }
}

// Rounds like those of SHA-256.
EXPORT("hash") uint32_t hash(uint32_t kib) {
  uint32_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (uint32_t i = 0; i < sizeof buffer; i++) buffer[i] = i * 7 + (i >> 8);
  for (uint32_t k = 0; k < kib * 16; k++) mix(h, buffer + k * 64 % sizeof buffer);
  return h[0] ^ h[7];
}

static uint8_t composite[1 << 20];

EXPORT("sieve") uint32_t sieve(uint32_t n) {
  uint32_t primes = 0;
  memset(composite, 0, n);
  for (uint32_t i = 2; i < n; i++)
    if (!composite[i]) {
      primes++;
      for (uint32_t j = i * 2; j < n; j += i) composite[j] = 1;
    }
  return primes;
}

EXPORT("fib") uint32_t fib(uint32_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

EXPORT("sum") uint32_t sum(uint32_t rounds) {
  uint32_t t = 0;
  for (uint32_t k = 0; k < rounds; k++)
    for (uint32_t i = 0; i < sizeof buffer; i++) t += buffer[i] ^ k;
  return t;
}

EXPORT("collatz") uint32_t collatz(uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++) {
    uint32_t steps = 0;
    for (uint64_t x = i; x != 1; x = x & 1 ? 3 * x + 1 : x >> 1) steps++;
    if (steps > best) best = steps;
  }
  return best;
}

static double a[64][64], b[64][64], c[64][64];

EXPORT("matmul") uint32_t matmul(uint32_t rounds) {
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) a[i][j] = i + j, b[i][j] = i - j, c[i][j] = 0;
  for (uint32_t k = 0; k < rounds; k++)
    for (int i = 0; i < 64; i++)
      for (int l = 0; l < 64; l++)
        for (int j = 0; j < 64; j++) c[i][j] += a[i][l] * b[l][j];
  return (uint32_t)(int64_t)c[3][5];
}

static int compare(const void *x, const void *y) {
  uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;
  return p < q ? -1 : p > q;
}

EXPORT("sort") uint32_t sort(uint32_t n) {
  uint32_t *v = malloc(n * sizeof *v), x = 12345;
  for (uint32_t i = 0; i < n; i++) v[i] = x = next(x);
  qsort(v, n, sizeof *v, compare);
  x = v[n / 2];
  free(v);
  return x;
}

EXPORT("copies") uint32_t copies(uint32_t n) {
  static uint8_t to[1 << 16];
  uint32_t t = 0;
  for (uint32_t i = 0; i < n; i++) {
    __builtin_memcpy(to + (i & 1023), buffer + (i & 511), 8 + (i * 37 & 63));
    t += to[i & 1023];
  }
  return t;
}

struct node { struct node *left, *right; uint32_t key; };

static struct node *insert(struct node *n, uint32_t key) {
  if (!n) {
    n = calloc(1, sizeof *n);
    n->key = key;
  } else if (key < n->key) {
    n->left = insert(n->left, key);
  } else {
    n->right = insert(n->right, key);
  }
  return n;
}

static uint32_t depth(struct node *n) {
  if (!n) return 0;
  uint32_t l = depth(n->left), r = depth(n->right);
  free(n);
  return 1 + (l > r ? l : r);
}

// A tree of small allocations, built and torn down by recursion.
EXPORT("tree") uint32_t tree(uint32_t n) {
  struct node *root = 0;
  for (uint32_t i = 0, x = 1; i < n; i++) root = insert(root, x = next(x));
  return depth(root);
}

// An interpreter's loop: one switch, many short branches.
EXPORT("interpret") uint32_t interpret(uint32_t n) {
  static const uint8_t program[] = {0, 3, 1, 4, 2, 5, 3, 6, 1, 0, 4, 2, 7};
  uint32_t acc = 1, x = 2;
  for (uint32_t i = 0, pc = 0; i < n; i++) {
    switch (program[pc]) {
      case 0: acc += x; break;
      case 1: acc ^= x << 3; break;
      case 2: x = next(x); break;
      case 3: if (acc & 1) x++; break;
      case 4: acc = acc >> 1 | acc << 31; break;
      case 5: x -= acc; break;
      case 6: acc *= 3; break;
      default: pc = 0; continue;
    }
    pc++;
  }
  return acc;
}
