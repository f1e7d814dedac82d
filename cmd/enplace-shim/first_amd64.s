#include "textflag.h"

// The thread's memory is made to hold a g first, arch_prctl(ARCH_SET_FS, &thread+8): Go's functions look there for how much
// stack they have, and zero says enough.
TEXT ·first(SB), NOSPLIT|NOFRAME, $0
	MOVQ SP, ·stack(SB)
	LEAQ ·g(SB), AX
	MOVQ AX, ·thread(SB)
	LEAQ ·thread+8(SB), SI
	MOVQ $0x1002, DI
	MOVQ $158, AX
	SYSCALL
	TESTQ AX, AX
	JNE  runtime
	ANDQ $~15, SP
	CALL ·quick(SB)
	MOVQ ·stack(SB), SP

runtime:
	JMP _rt0_amd64_linux(SB)
