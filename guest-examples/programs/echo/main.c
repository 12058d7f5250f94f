// echo: sends back what each connection sends, one connection after the other.
//
//   echo
//
// It serves the first port that its task has it listen on.

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTENER = 3 };

static int serve(int fd) {
  char buffer[4096];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof buffer)) > 0)
    for (ssize_t sent = 0, n; sent < got; sent += n)
      if ((n = write(fd, buffer + sent, (size_t)(got - sent))) < 0) return -1;
  return (int)got;
}

int main(void) {
  // The listener does not block at first.
  if (fcntl(LISTENER, F_SETFL, 0) != 0) {
    perror("echo: the task has no port to listen on");
    return 1;
  }
  puts("ready");
  fflush(stdout);
  for (;;) {
    int fd = accept(LISTENER, NULL, NULL);
    if (fd < 0) {
      perror("echo: accept");
      return 1;
    }
    if (serve(fd) < 0) perror("echo");
    close(fd);
  }
}
