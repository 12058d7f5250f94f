#include "textflag.h"

#define SYS_WRITE 64
#define SYS_EXIT_GROUP 94
#define SYS_CLONE3 435

#define CALL_SIZE 104

// MAKE_CALLS makes the calls of the list at R9, R10 of them, until one fails, and touches no
// stack. It ends behind itself. The last result is kept for a call that is chained to it, and is
// refused when it is farther above the expected one than it may be.
#define MAKE_CALLS \
	MOVD ZR, R11; \
next: \
	CBZ R10, over; \
	MOVD 0(R9), R8; \
	MOVD 8(R9), R0; \
	MOVD 16(R9), R1; \
	MOVD 24(R9), R2; \
	MOVD 32(R9), R3; \
	MOVD 40(R9), R4; \
	MOVD 48(R9), R5; \
	MOVD 56(R9), R12; \
	CMP $0, R12; \
	CSEL NE, R11, R0, R0; \
	SVC; \
	CMN $4095, R0; \
	BCS failed; \
	MOVD R0, R11; \
	MOVD 64(R9), R12; \
	SUB R12, R0; \
	MOVD 72(R9), R12; \
	CMP R12, R0; \
	BHI unexpected; \
	ADD $CALL_SIZE, R9; \
	SUB $1, R10; \
	B next; \
unexpected: \
	MOVD $1, R0; \
failed: \
	NEG R0, R0; \
	MOVD R0, 80(R9); \
over:

// func makeCalls(first *call, count uintptr) (made uintptr)
TEXT ·makeCalls(SB), NOSPLIT, $0-24
	MOVD first+0(FP), R9
	MOVD count+8(FP), R10
	MAKE_CALLS
	MOVD count+8(FP), R0
	SUB R10, R0
	MOVD R0, made+16(FP)
	RET

// func forkAndMake(arguments *cloneArguments, size uintptr, first *call, count, report uintptr) (pid uintptr, errno syscall.Errno)
TEXT ·forkAndMake(SB), NOSPLIT, $0-56
	MOVD arguments+0(FP), R0
	MOVD size+8(FP), R1
	MOVD first+16(FP), R9
	MOVD count+24(FP), R10
	MOVD report+32(FP), R13
	MOVD $SYS_CLONE3, R8
	SVC
	CMN $4095, R0
	BCS refused
	CBZ R0, child
	MOVD R0, pid+40(FP)
	MOVD ZR, errno+48(FP)
	RET
refused:
	NEG R0, R0
	MOVD ZR, pid+40(FP)
	MOVD R0, errno+48(FP)
	RET
child:
	MAKE_CALLS
	MOVD ZR, R0
	CBZ R10, exit
	MOVD R13, R0
	MOVD R9, R1
	MOVD $CALL_SIZE, R2
	MOVD $SYS_WRITE, R8
	SVC
	MOVD $127, R0
exit:
	MOVD $SYS_EXIT_GROUP, R8
	SVC
	BRK $0
