#include <stdio.h>
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int main(void) {
    for (int i = 0; i < 3; i++) {
        int version = -1, init = cuInit(0), rc = cuDriverGetVersion(&version);
        printf("init %d, version %d, %d\n", init, rc, version);
    }
    return 0;
}
