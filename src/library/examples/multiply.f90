! Multiply A and B of a file on all ranks.  A and B of Fortran are the transposes of what the file
! holds, so the second one is given first:
!
!     mpifort multiply.f90 $(pkg-config --libs dgemm_ooc) -o multiply
!     mpirun -n 3 ./multiply input.h5 C.h5
program multiply
    use, intrinsic :: iso_c_binding
    use mpi
    implicit none
    interface
        integer(c_int) function dgemm_ooc_create(product, ranks) bind(c)
            import :: c_int, c_ptr
            type(c_ptr), intent(out) :: product
            integer(c_int), intent(in) :: ranks
        end function
        integer(c_int) function dgemm_ooc_set(product, option, value) bind(c)
            import :: c_char, c_int, c_ptr
            type(c_ptr), value :: product
            character(kind=c_char), intent(in) :: option(*), value(*)
        end function
        integer(c_int) function dgemm_ooc_run(product) bind(c)
            import :: c_int, c_ptr
            type(c_ptr), value :: product
        end function
        subroutine dgemm_ooc_destroy(product) bind(c)
            import :: c_ptr
            type(c_ptr), value :: product
        end subroutine
    end interface
    type(c_ptr) :: product
    character(len=4096) :: input, output
    integer :: provided, error
    integer(c_int) :: status
    call get_command_argument(1, input)
    call get_command_argument(2, output)
    call MPI_Init_thread(MPI_THREAD_SERIALIZED, provided, error)
    status = dgemm_ooc_create(product, MPI_COMM_WORLD)
    if (status == 0) status = dgemm_ooc_set(product, "a" // c_null_char, trim(input) // ":/B" // c_null_char)
    if (status == 0) status = dgemm_ooc_set(product, "b" // c_null_char, trim(input) // ":/A" // c_null_char)
    if (status == 0) status = dgemm_ooc_set(product, "o" // c_null_char, trim(output) // c_null_char)
    if (status == 0) status = dgemm_ooc_run(product)
    call dgemm_ooc_destroy(product)
    call MPI_Finalize(error)
    if (status /= 0) error stop 1
end program
