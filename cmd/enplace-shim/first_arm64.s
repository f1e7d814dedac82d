#include "textflag.h"

// The g that Go's functions look at for how much stack they have is in a register, and zero says enough.
TEXT ·first(SB), NOSPLIT|NOFRAME, $0
	MOVD RSP, R0
	MOVD R0, ·stack(SB)
	MOVD $·g(SB), g
	SUB  $16, RSP
	BL   ·quick(SB)
	MOVD ·stack(SB), R0
	MOVD R0, RSP
	JMP  _rt0_arm64_linux(SB)
