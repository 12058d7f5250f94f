/* Decodes each message that it reads and writes it again: what package sdktest compares
 * with Go's codec. In: the name's length in a byte, the name, the length in four bytes, the
 * lowest first, the message. Out: the code of the decoder in a byte, length and message. */
#include <stdio.h>
#include <string.h>

#include "../wasmnode_test.h"

static const struct { const char *name; const wn_message *message; } messages[] = {
#define MESSAGE(name) {#name, &wn_##name##_message},
  WN_MESSAGES(MESSAGE)
};

static const wn_message *find(const char *name) {
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
    if (!strcmp(name, messages[i].name)) return messages[i].message;
  fprintf(stderr, "no message %s\n", name);
  exit(1);
}

static void take(void *to, size_t size) {
  if (size && fread(to, size, 1, stdin) != 1) exit(1);
}

int main(void) {
  for (int size; (size = getchar()) != EOF;) {
    char name[256] = {0};
    uint8_t head[5];
    take(name, (size_t)size);
    take(head + 1, 4);
    const wn_message *message = find(name);
    wn_string in = {0}, out = {0};
    in.size = head[1] | head[2] << 8 | head[3] << 16 | (uint32_t)head[4] << 24;
    char *bytes = malloc(in.size + !in.size); /* as long as it is: a byte further is an error */
    take(bytes, in.size);
    in.data = bytes;
    wn_release();
    void *decoded = wn_alloc(message->size);
    int32_t code = wn_decode(message, in, decoded);
    if (!code && !wn_encode(message, decoded, &out)) code = WN_ERROR_CODE_INTERNAL;
    head[0] = (uint8_t)code, head[1] = (uint8_t)out.size, head[2] = (uint8_t)(out.size >> 8);
    head[3] = (uint8_t)(out.size >> 16), head[4] = (uint8_t)(out.size >> 24);
    fwrite(head, 5, 1, stdout);
    if (out.size) fwrite(out.data, out.size, 1, stdout);
    free(bytes);
  }
  return 0;
}
