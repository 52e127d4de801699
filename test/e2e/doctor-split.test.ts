import { testDoctor } from './doctor-checks.ts';

testDoctor('split');
