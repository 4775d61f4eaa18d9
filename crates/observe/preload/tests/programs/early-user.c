#include <stdio.h>
int early(void);
int main(void) {
    printf("early %d\n", early());
    return 0;
}
