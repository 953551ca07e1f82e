//! Test clocks: customers that live at a time of the caller's choosing.

use actix_web::web;
use billing_domain::FieldErrors;
use billing_domain::id::TestClockId;
use billing_domain::test_clock::{TestClock, TestClockStatus};
use billing_domain::workflow::{AdvanceTestClock, CreateTestClock, advance_test_clock, create_test_clock};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{Instant, body, read_through, view};

/// The calls about test clocks.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/test_clocks/", "List test clocks", list).lists::<TestClockView>(),
        post("/api/test_clocks/", "Create a test clock", create)
            .takes::<CreateTestClock>()
            .answers::<TestClockView>(201),
        get("/api/test_clocks/{test_clock_id}/", "Show a test clock", show).answers::<TestClockView>(200),
        post("/api/test_clocks/{test_clock_id}/advance/", "Set a test clock on its way to a later time", advance)
            .takes::<AdvanceBody>()
            .answers::<TestClockView>(200),
    ]
}

body! {
    /// A new test clock.
    TestClockBody {
        /// What it is for.
        required name: String,
        /// Where it stands.
        required frozen_time: Instant,
    }
}

impl TestClockBody {
    fn read(self) -> Result<CreateTestClock, FieldErrors> {
        Ok(CreateTestClock { name: self.name, frozen_time: self.frozen_time.0 })
    }
}

read_through! { CreateTestClock = TestClockBody; }

body! {
    /// Where a test clock shall go.
    AdvanceBody {
        /// A time later than the clock's.
        required frozen_time: Instant,
    }
}

view! {
    /// A test clock.
    TestClockView {
        /// Its id.
        test_clock_id: TestClockId,
        /// What it is for.
        name: String,
        /// Where it stands; while it advances, where it will stand.
        frozen_time: Instant,
        /// Whether it stands or moves.
        status: TestClockStatus,
    }
}

impl From<&TestClock> for TestClockView {
    fn from(clock: &TestClock) -> Self {
        Self {
            test_clock_id: clock.id,
            name: clock.name.clone(),
            frozen_time: Instant(clock.frozen_time),
            status: clock.status,
        }
    }
}

/// `GET /api/test_clocks/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<TestClockView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        map_page(paging.cut(tx.test_clocks().list()?)?, |clock| Ok(TestClockView::from(&clock)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/test_clocks/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateTestClock>,
) -> Result<Created<TestClockView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| Ok(TestClockView::from(&create_test_clock(tx, &command, now)?)));
    Ok(Created(view.await?))
}

/// `GET /api/test_clocks/{test_clock_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<TestClockId>,
) -> Result<web::Json<TestClockView>, ApiError> {
    let clock = app.read(&caller, move |tx, _| tx.test_clocks().get(id)).await?;
    Ok(web::Json(TestClockView::from(&clock)))
}

/// `POST /api/test_clocks/{test_clock_id}/advance/`
async fn advance(
    app: web::Data<App>,
    caller: Caller,
    PathParam(clock): PathParam<TestClockId>,
    ApiJson(body): ApiJson<AdvanceBody>,
) -> Result<web::Json<TestClockView>, ApiError> {
    let command = AdvanceTestClock { clock, frozen_time: body.frozen_time.0 };
    let view = app.on_catalog(&caller, move |tx, now| Ok(TestClockView::from(&advance_test_clock(tx, &command, now)?)));
    let view = view.await?;
    app.clock_alarm.ring();
    Ok(web::Json(view))
}
