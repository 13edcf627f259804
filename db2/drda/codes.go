package drda

// Code points of DDM objects and parameters.
const (
	cpEXCSAT    = 0x1041
	cpEXCSATRD  = 0x1443
	cpACCSEC    = 0x106D
	cpACCSECRD  = 0x14AC
	cpSECCHK    = 0x106E
	cpSECCHKRM  = 0x1219
	cpACCRDB    = 0x2001
	cpACCRDBRM  = 0x2201
	cpEXTNAM    = 0x115E
	cpSRVNAM    = 0x116D
	cpSRVCLSNM  = 0x1147
	cpSRVRLSLV  = 0x115A
	cpMGRLVLLS  = 0x1404
	cpSECMEC    = 0x11A2
	cpSECTKN    = 0x11DC
	cpUSRID     = 0x11A0
	cpPASSWORD  = 0x11A1
	cpSECCHKCD  = 0x11A4
	cpRDBNAM    = 0x2110
	cpRDBACCCL  = 0x210F
	cpPRDID     = 0x112E
	cpCRRTKN    = 0x2135
	cpTYPDEFNAM = 0x002F
	cpTYPDEFOVR = 0x0035
	cpCCSIDSBC  = 0x119C
	cpCCSIDDBC  = 0x119D
	cpCCSIDMBC  = 0x119E
	cpPKGNAMCSN = 0x2113
	cpRDBCMTOK  = 0x2105
	cpSVRCOD    = 0x1149

	cpEXCSQLIMM = 0x200A
	cpEXCSQLSTT = 0x200B
	cpEXCSQLSET = 0x2014
	cpPRPSQLSTT = 0x200D
	cpOPNQRY    = 0x200C
	cpCNTQRY    = 0x2006
	cpCLSQRY    = 0x2005
	cpRDBCMM    = 0x200E
	cpRDBRLLBCK = 0x200F

	cpSQLSTT    = 0x2414
	cpSQLATTR   = 0x2450
	cpSQLDTA    = 0x2412
	cpFDODSC    = 0x0010
	cpFDODTA    = 0x147A
	cpEXTDTA    = 0x146C
	cpSQLCARD   = 0x2408
	cpSQLDARD   = 0x2411
	cpRTNSQLDA  = 0x2116
	cpQRYBLKSZ  = 0x2114
	cpQRYINSID  = 0x215B
	cpQRYCLSIMP = 0x215D
	cpRTNEXTDTA = 0x2148

	cpOPNQRYRM = 0x2205
	cpOPNQFLRM = 0x2212
	cpQRYDSC   = 0x241A
	cpQRYDTA   = 0x241B
	cpENDQRYRM = 0x220B
	cpENDUOWRM = 0x220C
	cpABNUOWRM = 0x220D
	cpRDBUPDRM = 0x2218
	cpQRYNOPRM = 0x2202

	cpSYNTAXRM = 0x124C
	cpPRCCNVRM = 0x1245
	cpCMDCHKRM = 0x1254
	cpRDBNFNRM = 0x2211
	cpRDBNACRM = 0x2204
	cpRDBAFLRM = 0x221A
	cpRDBATHRM = 0x2203
	cpSQLERRRM = 0x2213
	cpAGNPRMRM = 0x1232
	cpCMDNSPRM = 0x1250
	cpPRMNSPRM = 0x1251
	cpVALNSPRM = 0x1252
	cpOBJNSPRM = 0x1253
	cpDTAMCHRM = 0x220E
)

// replyNames are for messages.
var replyNames = map[uint16]string{
	cpSYNTAXRM: "SYNTAXRM (the server found an error in the form of a request)", cpPRCCNVRM: "PRCCNVRM (conversation out of order)",
	cpCMDCHKRM: "CMDCHKRM (the command failed)", cpRDBNFNRM: "RDBNFNRM (no such database)", cpRDBNACRM: "RDBNACRM (database not accessed)",
	cpRDBAFLRM: "RDBAFLRM (the database could not be accessed)", cpRDBATHRM: "RDBATHRM (not authorized to the database)",
	cpSQLERRRM: "SQLERRRM", cpAGNPRMRM: "AGNPRMRM (the server has a permanent error)", cpCMDNSPRM: "CMDNSPRM (command not supported)",
	cpPRMNSPRM: "PRMNSPRM (parameter not supported)", cpVALNSPRM: "VALNSPRM (value of a parameter not supported)",
	cpOBJNSPRM: "OBJNSPRM (object not supported)", cpDTAMCHRM: "DTAMCHRM (data does not match its description)",
	cpABNUOWRM: "ABNUOWRM (the transaction was rolled back)", cpQRYNOPRM: "QRYNOPRM (the query is not open)", cpOPNQFLRM: "OPNQFLRM (the query could not be opened)",
}

// Managers of MGRLVLLS, with the levels that we ask for: level 7 of SQLAM is the one for which
// there is a recorded conversation.
var managers = []uint16{0x1403, 7, 0x2407, 7, 0x240F, 7, 0x1440, 7, 0x1474, 5, mgrUnicode, 1208}

const mgrUnicode = 0x1C08

// Kinds of DSS, and the flags beside them.
const (
	dssRequest = 1
	dssReply   = 2
	dssObject  = 3

	dssChained  = 0x40 // another DSS follows
	dssSameCorr = 0x10 // and has the same correlation number
)
